"""Run modes of a TensorFlowTrainingJob: held for debugging, paused and resumed. Pure."""

from collections.abc import Mapping
from typing import Any

from tfsteps.platforms.t9k import Skips, T9kOptions
from tfsteps.runs.events import State
from tfsteps.runs.identity import PREFIX
from tfsteps.spec import Problem, Role, RoleName, TrainingJob
from tfsteps.systems.kubernetes.job_kind import Verdict
from tfsteps.systems.kubernetes.render.command_wrapper import exporting, needs_correction

PAUSED = f"{PREFIX}paused"
"""Annotation of a job that tfsteps paused; without it, the platform or a user paused the job."""

_HOSTS = r'"evaluator": *\[[^]]*\]'
_WITHOUT_EVALUATOR = f"""$(printf %s "$TF_CONFIG" | sed -e 's/{_HOSTS}, *//' -e 's/, *{_HOSTS}//')"""
_OVER_TIME = "MaxDurationExceeded"  # the platform's reason when a queue's maxDuration has passed


def spec_problems(job: TrainingJob, options: T9kOptions) -> list[Problem]:
    """Return which roles of the options the job does not have."""
    have = [name for name, _ in job.roles.items()]
    named = {
        "debug_commands": options.debug_commands,
        "resume_commands": options.resume_commands,
        "resume_args": options.resume_args,
        "debug_skip_init_containers": options.debug_skip_init_containers,
        "resume_skip_init_containers": options.resume_skip_init_containers,
    }
    return [
        Problem(
            path=("systems", "t9k", option, role),
            wrong="is not a role of this job",
            allowed=", ".join(have),
            fix="Remove it, or add the role",
        )
        for option, roles in named.items()
        for role in (roles if isinstance(roles, Mapping) else ())
        if role not in have
    ]


def run_mode(job: TrainingJob, options: T9kOptions, programs: Mapping[RoleName, Mapping[str, Any]]) -> dict[str, Any]:
    """Return `spec.runMode`; empty = the job runs at once.

    A job with a PodGroup of tfsteps starts paused: `RenderedJob.unsuspend_patch` resumes it once the group exists.

    Args:
        job: The job.
        options: Its options.
        programs: The rendered container of each role.
    """
    mode: dict[str, Any] = {}
    if options.debug:
        mode["debug"] = {"enabled": True, **_debugged(job, options)}
    resume = _resume_specs(job, options, programs)
    if options.suspend or resume or (job.gang and not job.queue):
        held = options.suspend or bool(job.gang and not job.queue)
        mode["pause"] = {"enabled": held, **({"resumeSpecs": resume} if resume else {})}
    return mode


def _debugged(job: TrainingJob, options: T9kOptions) -> dict[str, Any]:
    """Return `debug.replicaSpecs`; without them the controller holds all replicas, after their init containers."""
    skips = options.debug_skip_init_containers
    held = options.debug_commands or {name: () for name, _ in job.roles.items() if skips}
    specs = [
        {"type": role, "skipInitContainer": _skips(skips, role), **({"command": list(command)} if command else {})}
        for role, command in held.items()
    ]
    return {"replicaSpecs": specs} if specs else {}


def _resume_specs(
    job: TrainingJob, options: T9kOptions, programs: Mapping[RoleName, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the commands of replicas after a pause; they cannot be changed later.

    By one of the manuals, missing fields come from the first of `replicaSpecs`; so with several roles, each role's
    own command is set.
    """
    specs = []
    several = len(job.roles.items()) > 1
    for name, role in job.roles.items():
        command, args = options.resume_commands.get(name), options.resume_args.get(name)
        program = programs[name] if several and programs[name].get("command") else {}
        skip = _skips(options.resume_skip_init_containers, name)
        spec: dict[str, Any] = {"type": name, "skipInitContainer": skip}
        if command:
            spec["command"] = corrected_command(job, role, list(command))
        elif program:
            spec["command"] = program["command"]
        if args is not None:
            spec["args"] = list(args)
        elif program:
            spec["args"] = list(program.get("args") or [])
        if len(spec) > 2 or skip:
            specs.append(spec)
    return specs


def _skips(skips: Skips, role: RoleName) -> bool:
    return skips.get(role, False) if isinstance(skips, dict) else skips


def corrected_command(job: TrainingJob, role: Role, command: list[str]) -> list[str]:
    """Return a command with TFSTEPS_INDEX and a valid TF_CONFIG set, if the platform does not set them.

    A pod's name ends with the index, and no label is known to hold it.
    """
    variables = {"TFSTEPS_INDEX": "${TFSTEPS_POD##*-}"} if role.replicas > 1 else {}
    if needs_correction(job):
        variables["TF_CONFIG"] = _WITHOUT_EVALUATOR
    return exporting(command, variables) if variables else command


def pause(*, paused: bool) -> dict[str, Any]:
    """Return the merge patch that pauses or resumes a job."""
    note = {"annotations": {PAUSED: "true" if paused else None}}
    return {"metadata": note, "spec": {"runMode": {"pause": {"enabled": paused}}}}


def is_paused(item: Mapping[str, Any]) -> bool:
    """Tell whether a job is being paused; its phase may not show it yet."""
    mode = item["spec"].get("runMode") or {}
    return bool((mode.get("pause") or {}).get("enabled"))


def pause_verdict(item: Mapping[str, Any], condition: Mapping[str, Any]) -> Verdict:
    """Return a pause and who paused it. It never ends by itself, and only the deadline `total` counts meanwhile."""
    reason, message = condition.get("reason", ""), condition.get("message", "")
    if PAUSED in (item["metadata"].get("annotations") or {}):
        return Verdict(
            State.SUSPENDED, reason or "Paused", message or "Paused by tfsteps; `tfsteps resume` continues it."
        )
    if _OVER_TIME in (reason, *message.split()):
        return Verdict(State.SUSPENDED, _OVER_TIME, message or "The platform paused it: its queue's time was over.")
    if (item["spec"].get("scheduler") or {}).get("t9kScheduler"):
        words = "Not paused by tfsteps: the queue's maxDuration has passed (see the events), or a user paused it."
        return Verdict(State.SUSPENDED, "PausedByPlatform", words)
    return Verdict(State.SUSPENDED, reason or "Paused", message or "Not paused by tfsteps.")
