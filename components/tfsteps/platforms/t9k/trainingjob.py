"""TensorFlowTrainingJob: how a job is written as one, and what one says about its job. Pure.

The platform's controller is not public. Facts: the user manual of 2024-08 and 2025-11 and its API reference, which are
in part those of the sibling kind GenericJob.
"""

import math
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfsteps.kube.resource import Resource
from tfsteps.platforms.t9k import CAPABILITIES, Skips, T9kOptions
from tfsteps.runs.events import ReplicaName, State, Verdict
from tfsteps.runs.identity import PREFIX, Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import ROLES, Problem, ResolvedRole, Role, RoleName, TrainingJob, options_of
from tfsteps.spec.pod import Volume
from tfsteps.systems.kubernetes.job_kind import (
    BaseJobKind,
    ObjectPatch,
    RenderedJob,
    ReplicaEnd,
    RoleSpec,
    TensorBoardLink,
    true_conditions,
)
from tfsteps.systems.kubernetes.permissions import Permission
from tfsteps.systems.kubernetes.render import gang
from tfsteps.systems.kubernetes.render.command_wrapper import (
    container_of,
    exporting,
    needs_correction,
    uncorrected,
    unexpanded,
)
from tfsteps.systems.kubernetes.render.pod_template import (
    CONTAINER,
    RESTART_POLICIES,
    ROLE_LABEL,
    pod_template,
)
from tfsteps.systems.kubernetes.times import age_at

_NAME = 63  # of a pod, which is also a host
_JOB = f"{PREFIX}job"  # a label of our own: which ones the controller puts on pods is documented for siblings only
_CLEAN_UP = {"unfinished": "Unfinished", "all": "All", "none": "None"}
_KILLED = (137, 143)  # exit codes of a program that SIGKILL or SIGTERM ended
_RETRIED = "130, 137, 138 and 143"
BOARDS = Resource("tensorstack.dev/v1beta1", "tensorboards", "TensorBoard")
PAUSED = f"{PREFIX}paused"
"""Annotation of a job that tfsteps paused; without it, the platform or a user paused the job."""

_HOSTS = r'"evaluator": *\[[^]]*\]'
_WITHOUT_EVALUATOR = f"""$(printf %s "$TF_CONFIG" | sed -e 's/{_HOSTS}, *//' -e 's/, *{_HOSTS}//')"""
_OVER_TIME = "MaxDurationExceeded"  # the platform's reason when a queue's maxDuration has passed


class TensorFlowTrainingJob(BaseJobKind):
    """The kind TensorFlowTrainingJob."""

    name = "t9k"
    resource = Resource("batch.tensorstack.dev/v1beta1", "tensorflowtrainingjobs", "TensorFlowTrainingJob")
    operator = "TensorStack's job controller"
    container = CONTAINER  # the name by which the controller identifies the training container
    capabilities = CAPABILITIES
    options = T9kOptions

    # --- render

    def permissions(self, job: TrainingJob) -> list[Permission]:
        """Return the permissions to read the TensorBoard, and to create a gang that is not T9k's own."""
        reading = [Permission("get", BOARDS)] if job.tensorboard else []
        return [*reading, *gang.permissions(job)] if _grouped(job) else reading

    def rules(self, job: TrainingJob) -> list[Problem]:
        """Return which values and combinations a TensorFlowTrainingJob cannot have."""
        options = options_of(job, self.name, T9kOptions)
        by_shell = {"TFSTEPS_INDEX"} if any(role.replicas > 1 for _, role in job.roles.items()) else ()
        return [
            *_scheduling(job),
            *tensorboard_problems(job, options),
            *spec_problems(job, options),
            *uncorrected(job),
            *unexpanded(job, by_shell),
        ]

    def differences(self, job: TrainingJob) -> list[str]:
        """Return the differences here, and the roles without an index variable."""
        sentences = []
        if any(role.restart == "exit_code" for role in job.resolved_roles().values()):
            sentences.append(
                f"`restart: exit_code` starts a replica again after {_RETRIED} only: the platform's choice."
            )
        if job.tensorboard and job.tensorboard.life_time:
            sentences.append(f"{job.tensorboard.life_time} has no effect: the platform ends an unused TensorBoard.")
        if job.gang and job.queue and job.gang.timeout:
            sentences.append("`gang.timeout` has no effect: the queue's scheduler has a time of its own.")
        bare = [name for name, role in job.resolved_roles().items() if not role.command]
        if bare and len(job.roles.items()) > 1:
            who = ", ".join(bare)
            sentences.append(f"After a pause the platform may run the first role's command in {who}: add a `command`.")
        nameless = [name for name in bare if job.resolved_roles()[name].replicas > 1]
        if nameless:
            who = ", ".join(nameless)
            sentences.append(f"TFSTEPS_INDEX is not set in {who}: that takes a `command`. TF_CONFIG has the index.")
        return sentences

    def render(self, job: TrainingJob, identity: Identity, paths: OutputPaths, namespace: str) -> RenderedJob:
        """Return the object that is created, with a PodGroup where the job has a gang and no queue."""
        options = options_of(job, self.name, T9kOptions)
        # pods and hosts are named `<name>-<type>-<index>`
        tail = max(len(f"-{name}-{role.replicas - 1}") for name, role in job.roles.items())
        name = identity.job_name(job.name, _NAME - tail)
        labels = {**job.labels, **identity.labels()}
        specs = [
            _replica_spec(job, role_name, role, name, pod_template(
                job, role_name, role, identity, paths, gpu_label=options.gpu_label, more_env=_env(role)
            ))
            for role_name, role in job.resolved_roles().items()
        ]  # fmt: skip
        spec: dict[str, Any] = {"replicaSpecs": specs, "runPolicy": _run_policy(job, options)}
        if job.queue:
            spec["scheduler"] = {"t9kScheduler": {"queue": job.queue, "priority": job.priority or 0}}
        if job.tensorboard:
            spec["tensorboardSpec"] = tensorboard_spec(job, options, paths)
        programs = {replica_spec["type"]: container_of(replica_spec["template"], CONTAINER) for replica_spec in specs}
        if mode := run_mode(job, options, programs):
            spec["runMode"] = mode
        noted = {PAUSED: "true"} if options.suspend else {}
        metadata = {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "annotations": {**job.annotations, **noted},
        }
        manifest = {"apiVersion": self.resource.api, "kind": self.resource.kind, "metadata": metadata, "spec": spec}
        if not _grouped(job):
            return RenderedJob(manifest)
        # created paused: a pod is scheduled alone if its group does not exist yet
        unsuspend = {} if options.suspend else {"spec": {"runMode": {"pause": {"enabled": False}}}}
        return RenderedJob(manifest, [gang.pod_group(job, name, namespace, labels)], unsuspend)

    # --- the job's pods

    def roles(self, item: Mapping[str, Any]) -> dict[RoleName, RoleSpec]:
        """Return the roles of a TensorFlowTrainingJob."""
        specs = {replica_spec["type"]: replica_spec for replica_spec in item["spec"]["replicaSpecs"]}
        return {
            name: RoleSpec(specs[name].get("replicas", 1), specs[name]["template"]) for name in ROLES if name in specs
        }

    def selector(self, name: str) -> str:
        return f"{_JOB}={name}"

    def replica(self, meta: Mapping[str, Any], replicas: Sequence[ReplicaName]) -> ReplicaName | None:
        """Return which replica a pod is: its role is a label of ours, its index the end of its name."""
        role = (meta.get("labels") or {}).get(ROLE_LABEL, "")
        name = f"{role}-{meta['name'].rpartition('-')[2]}"
        return next((replica for replica in replicas if str(replica) == name), None)

    def replica_ends(self, item: Mapping[str, Any], replicas: Sequence[ReplicaName]) -> Iterator[ReplicaEnd]:
        """Yield the ends in `status.tasks`: the platform deletes the pods of an ended job as `clean_up` says."""
        names = {str(replica): replica for replica in replicas}
        for role, entry, restarts in _reported(item):
            replica = names.get(f"{role}-{str(entry.get('name', '')).rpartition('-')[2]}")
            containers = [status for status in entry.get("containers") or [] if status.get("name") == CONTAINER]
            codes = [status.get("exitCode") for status in containers if status.get("state") == "Terminated"]
            if replica and codes and type(codes[0]) is int:
                yield ReplicaEnd(
                    replica=replica,
                    pod=entry["name"],
                    uid=str(entry.get("uid", "")),
                    exit_code=codes[0],
                    stopped=entry.get("phase") == "Deleted" and codes[0] in _KILLED,
                    restarts=restarts,
                )

    def tensorboard_link(self, item: Mapping[str, Any]) -> TensorBoardLink | None:
        return tensorboard_of(item)

    # --- pause

    def pause(self, item: Mapping[str, Any], *, paused: bool) -> list[ObjectPatch]:
        """Return the change of runMode.pause.enabled, with the annotation of tfsteps: the platform pauses jobs too."""
        return [ObjectPatch(resource=self.resource, name=item["metadata"]["name"], patch=pause(paused=paused))]

    # --- verdict

    def verdict(self, item: Mapping[str, Any]) -> Verdict:
        """Return the verdict of a TensorFlowTrainingJob: by its phase, else by its conditions.

        Conditions stay listed with status "False". The one of success is called Completed.
        """
        status = item.get("status") or {}
        phase = status.get("phase", "")
        true = true_conditions(item)
        if phase == "Failed" or (phase in ("", "Unknown") and "Failed" in true):
            return _failure(item, true.get("Failed", {}))
        if phase == "Succeeded" or (phase in ("", "Unknown") and "Completed" in true):
            return _verdict_of(true.get("Completed", {}), State.SUCCEEDED)
        if phase == "Paused" or is_paused(item):
            return pause_verdict(item, true.get("Paused", {}))
        if phase == "Unknown":
            return Verdict(State.UNKNOWN, "Unknown", "The platform has lost sight of the job's replicas.")
        if _queued(item):
            return Verdict(State.QUEUED, "Queued", f"In queue {_queue(item)}.")
        return Verdict(State.RUNNING) if phase == "Running" else Verdict(State.PENDING, phase and "Created")


def _env(role: Role) -> list[dict[str, Any]]:
    """Return the index of a role's only replica, or the name that its replicas' shell takes their index from."""
    if role.replicas == 1:
        return [{"name": "TFSTEPS_INDEX", "value": "0"}]
    return [{"name": "TFSTEPS_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]


def _replica_spec(
    job: TrainingJob, name: RoleName, role: ResolvedRole, job_name: str, pod: dict[str, Any]
) -> dict[str, Any]:
    pod["metadata"]["labels"][_JOB] = job_name
    container = container_of(pod, CONTAINER)
    if container.get("command"):
        container["command"] = corrected_command(job, role, container["command"])
    if job.gang and _grouped(job):
        pod = gang.gang_pod(pod, job.gang, job_name)
    return {"type": name, "replicas": role.replicas, "restartPolicy": RESTART_POLICIES[role.restart], "template": pod}


def _run_policy(job: TrainingJob, options: T9kOptions) -> dict[str, Any]:
    return {
        "activeDeadlineSeconds": round(job.deadlines.total),
        "backoffLimit": job.effective_backoff_limit,
        "cleanUpPolicy": _CLEAN_UP[options.clean_up],
    }


# --- scheduling


def _grouped(job: TrainingJob) -> bool:
    """Tell whether a gang needs a PodGroup of tfsteps: with a queue the platform creates one of all replicas."""
    return bool(job.gang and not job.queue)


def _scheduling(job: TrainingJob) -> list[Problem]:
    """Return what the platform's scheduler does not support, or only with a queue."""
    problems = [] if job.queue else gang.spec_problems(job)
    if job.priority is not None and not job.queue:
        wrong = "orders the jobs of a queue, and the job is in none"
        problems.append(
            Problem(path=("priority",), value=str(job.priority), wrong=wrong, fix="Add `queue:`, or leave priority out")
        )
    replicas = sum(role.replicas for _, role in job.roles.items())
    if job.queue and job.gang and job.gang.min_available not in (None, replicas):
        problems.append(
            Problem(
                path=("gang", "min_available"),
                value=str(job.gang.min_available),
                wrong="cannot be chosen in a queue: its PodGroup holds all replicas",
                allowed=str(replicas),
                fix="Leave it out, or leave `queue` out",
            )
        )
    return problems


def _queue(item: Mapping[str, Any]) -> str:
    scheduler = item["spec"].get("scheduler") or {}
    return str((scheduler.get("t9kScheduler") or {}).get("queue", ""))


def _queued(item: Mapping[str, Any]) -> bool:
    """Tell whether the job waits in the queue: it is Pending, and no replica has a container yet."""
    if not _queue(item) or (item.get("status") or {}).get("phase", "") not in ("", "Pending"):
        return False
    return not any(entry.get("containers") for _, entry, _ in _reported(item))


def _reported(item: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], int]]:
    """Yield (role, status, restarts) of each replica in `status.tasks`; 0 restarts if those of a role are summed."""
    for task in (item.get("status") or {}).get("tasks") or []:
        replicas = task.get("replicas") or task.get("replicaStatus") or []  # the second in an older manual
        restarts = (task.get("restartCount") or 0) if len(replicas) == 1 else 0
        yield from ((task.get("type", ""), entry, restarts) for entry in replicas)


# --- verdicts


def _verdict_of(condition: Mapping[str, Any], state: State) -> Verdict:
    return Verdict(state, condition.get("reason", ""), condition.get("message", ""))


def _failure(item: Mapping[str, Any], condition: Mapping[str, Any]) -> Verdict:
    """Return a failure. The platform's reasons are not documented: counts and times tell a limit that was exceeded."""
    reason, message = condition.get("reason", ""), condition.get("message", "")
    policy = item["spec"].get("runPolicy") or {}
    limit = policy.get("backoffLimit") or 0
    if "Deadline" in reason or age_at(item, condition) >= (policy.get("activeDeadlineSeconds") or math.inf):
        reason = "DeadlineExceeded"
    elif 0 < limit <= (item.get("status") or {}).get("backoffCount", 0):
        reason = "BackoffLimitExceeded"
    counts = (item.get("status") or {}).get("aggregate") or {}
    if not any(True for _ in _reported(item)) and (failed := counts.get("failed")):
        message = f"{message} The platform counts {failed} failed replica{'s' * (failed != 1)}.".strip()
    return Verdict(State.FAILED, reason, message)


def tensorboard_of(item: Mapping[str, Any]) -> TensorBoardLink | None:
    """Return the TensorBoard in a job's status; None = none, or not yet."""
    status = (item.get("status") or {}).get("tensorboard")
    if not status:
        return None
    note = "" if status.get("ready") else f"{status.get('reason', '')}: {status.get('note', '')}".strip(": ")
    name = (status.get("dependent") or {}).get("name") or item["metadata"]["name"]
    return TensorBoardLink(resource=BOARDS, name=name, note=note)


def tensorboard_problems(job: TrainingJob, options: T9kOptions) -> list[Problem]:
    """Return why a TensorBoard would have nothing to show."""
    folder = _output_dir(job)
    if not job.tensorboard or _elsewhere(options) or _claim(job, folder) or _bucket(options, folder):
        return []
    if folder.startswith("s3://"):
        wrong = "needs the name of the Secret for the event files at s3://"
        fix = "Add `systems: {t9k: {tensorboard_s3: {secret: NAME}}}`"
    else:
        wrong = "has nothing to read: `output_dir` is on no claim that is mounted"
        fix = "Mount one with `volumes: [{pvc: ..., mount: ...}]`, or set `systems.t9k.tensorboard_file_sets`"
    return [Problem(path=("tensorboard",), wrong=wrong, fix=fix)]


def tensorboard_spec(job: TrainingJob, options: T9kOptions, paths: OutputPaths) -> dict[str, Any]:
    """Return `spec.tensorboardSpec`; T9k gives the object the job's name."""
    tensorboard, logs = job.tensorboard, paths.tensorboard(job)
    images = [tensorboard and tensorboard.image, job.image, *(role.image for _, role in job.roles.items())]
    result: dict[str, Any] = {"image": next(image for image in images if image)}
    if options.tensorboard_file_sets:
        result["trainingLogFilesets"] = list(options.tensorboard_file_sets)
    if log_dir := _log_dir(job, options, logs):
        result["logDir"] = log_dir
    if options.tensorboard_queue:
        result["scheduler"] = {"t9kScheduler": {"queue": options.tensorboard_queue}}
    if options.tensorboard_resources:
        result["resources"] = options.tensorboard_resources
    return result


def _log_dir(job: TrainingJob, options: T9kOptions, logs: str) -> dict[str, Any]:
    """Return `logDir`: what the options name, else where the event files are."""
    s3, result = options.tensorboard_s3, dict[str, Any]()
    if not _elsewhere(options) and (claim := _claim(job, logs)):
        below = posixpath.relpath(logs, claim.mount)
        result["pvc"] = [{"name": claim.pvc, "subPath": [posixpath.join(claim.sub_path or "", below)]}]
    if s3 and (uris := s3.uris or _bucket(options, logs)):
        result["s3"] = {**({"secretRef": {"name": s3.secret}} if s3.secret else {}), "uri": list(uris)}
    if options.tensorboard_urls:
        result["http"] = {"url": list(options.tensorboard_urls)}
    return result


def _elsewhere(options: T9kOptions) -> bool:
    """Tell whether the options name locations to read."""
    s3 = options.tensorboard_s3
    return bool(options.tensorboard_file_sets or options.tensorboard_urls or (s3 and s3.uris))


def _bucket(options: T9kOptions, folder: str) -> tuple[str, ...]:
    """Return the folder of the event files if it is in object storage that T9k may read; empty = it is not."""
    named = bool(options.tensorboard_s3) and not _elsewhere(options)
    return (folder,) if named and folder.startswith("s3://") else ()


def _output_dir(job: TrainingJob) -> str:
    """Return the output folder, as far as it is known before the run."""
    lasting = (volume.mount for volume in job.volumes if (volume.pvc or volume.nfs) and not volume.read_only)
    return job.output_dir or next(lasting, "")


def _claim(job: TrainingJob, path: str) -> Volume | None:
    """Return the job's volume that contains `path`, if it is a claim."""
    over = [volume for volume in job.volumes if f"{path}/".startswith(f"{volume.mount.rstrip('/')}/")]
    nearest = max(over, key=lambda volume: len(volume.mount), default=None)
    return nearest if nearest and nearest.pvc else None


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
