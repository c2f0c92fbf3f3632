"""Rules between the fields of a job.

Each rule is a generator of problems of a whole job; `RULES` lists them. TensorFlow's requirements behind them are in
docs/get-started.
"""

import posixpath
from collections.abc import Callable, Collection, Iterator, Mapping
from string import Formatter

from tfsteps.spec import pod_rules
from tfsteps.spec.notify import MAX_WEBHOOKS
from tfsteps.spec.problems import Path, Problem, problem
from tfsteps.spec.types import TrainingJob
from tfsteps.spec.units import format_duration
from tfsteps.spec.uris import is_uri

_PLACEHOLDERS = ("name", "run_id", "task")
_STORES = ("gs", "s3", "s3a", "s3n")  # schemes whose URIs begin with a bucket


def roles(job: TrainingJob) -> Iterator[Problem]:
    """TensorFlow can train with these roles."""
    have = job.roles
    if not have.chief and not have.worker:
        only = " and ".join(name for name, _ in have.items()) or "no role"
        yield problem(("roles",), f"has {only}: no role trains", "Add a chief or a worker")
    for name, why in (("chief", "the chief is a single process"), ("evaluator", "the evaluator is a single process")):
        role = getattr(have, name)
        if role and role.replicas > 1:
            path = ("roles", name, "replicas")
            yield problem(path, f"is more than one: {why}", "Write 1, and add workers instead", role.replicas, "1")
    if have.ps and have.chief and not have.worker and job.effective_strategy != "between_graph":
        fix = "Add a worker role, or remove ps, or write `strategy: between_graph` for TensorFlow 1's graph mode"
        yield problem(("roles", "ps"), "has no workers to serve", fix)


def strategy(job: TrainingJob) -> Iterator[Problem]:
    """The roles fit the strategy."""
    have, how, path = job.roles, job.effective_strategy, ("strategy",)
    if how == "parameter_server" and have.ps and not have.chief:
        fix = "Add `chief: {}`, or `strategy: between_graph` if the program uses TensorFlow 1's graph mode"
        yield problem(("roles", "ps"), "needs a chief: TensorFlow 2's parameter servers hang without one", fix)
    if how in ("parameter_server", "between_graph") and not have.ps:
        yield problem(path, "needs parameter servers", "Add a ps role, or leave strategy out", how)
    if how in ("multi_worker_mirrored", "single") and have.ps:
        yield problem(path, "does not use parameter servers", "Remove roles.ps, or leave strategy out", how)
    trainers = sum(role.replicas for name, role in have.items() if name in ("chief", "worker"))
    if job.strategy == "single" and trainers > 1:
        yield problem(path, f"is for one training replica, not {trainers}", "Leave strategy out", "single")


def success(job: TrainingJob) -> Iterator[Problem]:
    """The replicas that decide success exist, and can end."""
    if job.success != "all_workers":
        return
    worker, path = job.roles.worker, ("success",)
    if job.roles.chief and not worker:
        yield problem(path, "requires workers, and the job has none", "Write `success: chief`", "all_workers")
    if worker and (worker.restart or job.restart) == "always":
        fix = "Write `success: chief`, or another restart policy"
        yield problem(path, "waits for workers that never end with `restart: always`", fix, "all_workers")


def restarts(job: TrainingJob) -> Iterator[Problem]:
    """A backoff limit requires a restart policy other than never."""
    wrong = "allows restarts that `restart: never` rules out"
    policies = {job.restart, *(role.restart for _, role in job.roles.items() if role.restart)}
    if job.backoff_limit and policies == {"never"}:
        fix = "Write `restart: on_failure`, or remove it"
        yield problem(("backoff_limit",), wrong, fix, job.backoff_limit)
    for name, role in job.roles.items():
        if role.backoff_limit and (role.restart or job.restart) == "never":
            path = ("roles", name, "backoff_limit")
            yield problem(path, wrong, "Set restart, or remove it", role.backoff_limit)


def deadlines(job: TrainingJob) -> Iterator[Problem]:
    """A deadline is not longer than one that always passes first."""
    limits = job.deadlines
    for name in ("queue", "pending", "running", "no_progress"):
        seconds = getattr(limits, name)
        if seconds and seconds > limits.total:
            wrong = f"can never be reached: `total` ends the job after {format_duration(limits.total)}"
            yield problem(("deadlines", name), wrong, "Lower it, or raise deadlines.total", format_duration(seconds))
    if limits.no_progress and limits.running and limits.running < limits.no_progress <= limits.total:
        wrong = f"can never be reached: `running` ends the job after {format_duration(limits.running)}"
        shown = format_duration(limits.no_progress)
        yield problem(("deadlines", "no_progress"), wrong, "Lower it, or raise deadlines.running", shown)


def output_dir(job: TrainingJob) -> Iterator[Problem]:
    """`output_dir` can be expanded."""
    template, path = job.output_dir or "", ("output_dir",)
    if template.startswith(("~", "$")):
        yield problem(path, "is not expanded: no shell reads it", "Write the full path", repr(template))
    yield from _uri(path, template)
    try:
        used = [part[1:] for part in Formatter().parse(template) if part[1] is not None]
    except ValueError:
        yield problem(path, "has an unmatched brace", "Close it, or double it to use a plain brace", repr(template))
        return
    allowed = ", ".join(f"{{{name}}}" for name in _PLACEHOLDERS)
    for name, format_, conversion in used:
        if name not in _PLACEHOLDERS or format_ or conversion:
            full = f"{name}{f'!{conversion}' if conversion else ''}{f':{format_}' if format_ else ''}"
            wrong = f"has the unknown placeholder {{{full}}}"
            yield problem(path, wrong, "Use one of these", repr(template), allowed)


def _uri(path: Path, folder: str) -> Iterator[Problem]:
    """A URI names a folder of a store."""
    scheme, slashes, rest = folder.partition(":/")
    if scheme == "file" and slashes:
        fix = f"Write the path, `/{rest.lstrip('/')}`"
        yield problem(path, "is a file:// URI, which not every program reads", fix, repr(folder))
    elif slashes and scheme in _STORES and not rest.startswith("/"):
        yield problem(path, "has one slash after its scheme", f"Write `{scheme}://...`", repr(folder))
    elif is_uri(folder) and (not rest.strip("/") or (scheme in _STORES and rest.startswith("//"))):
        yield problem(path, "has no bucket", f"Write `{scheme}://bucket/folder`", repr(folder))


def folders(job: TrainingJob) -> Iterator[Problem]:
    """Processes start in folders that are no URIs, and model and event files have separate ones below `output_dir`."""
    for path, part in job.parts():
        if part.working_dir and is_uri(part.working_dir):
            wrong = "is a URI; no process can start there"
            yield problem((*path, "working_dir"), wrong, "Write a path", repr(part.working_dir))
    below = {("outputs", "model"): job.outputs.model, ("outputs", "logs"): job.outputs.logs}
    if job.tensorboard:
        below["tensorboard", "log_dir"] = job.tensorboard.log_dir or ""
    for path, folder in below.items():
        if is_uri(folder):
            fix = "Write a relative path, and the URI in `output_dir`"
            yield problem(path, "is a URI, and a folder below `output_dir` is expected", fix, repr(folder))
    model, logs = (posixpath.normpath(folder) for folder in (job.outputs.model, job.outputs.logs))
    if model == logs:
        yield problem(("outputs",), f"has one folder, {model!r}, for model and logs", "Write two folders")


def clean_up(job: TrainingJob) -> Iterator[Problem]:
    """`keep_for` requires that something is kept."""
    if job.on_end == "delete" and job.keep_for:
        wrong = "has no effect: `on_end: delete` removes the job"
        yield problem(("keep_for",), wrong, "Remove one of the two", format_duration(job.keep_for))


def notify(job: TrainingJob) -> Iterator[Problem]:
    """There are few webhooks, and each has an event."""
    if len(job.notify) > MAX_WEBHOOKS:
        wrong = f"has {len(job.notify)} webhooks"
        yield problem(("notify",), wrong, "Send to a service that distributes them", allowed=f"at most {MAX_WEBHOOKS}")
    for i, webhook in enumerate(job.notify):
        if not webhook.events:
            yield problem(("notify", i, "events"), "is empty: nothing is sent", "Name an event, or remove the webhook")


Rule = Callable[[TrainingJob], Iterator[Problem]]
RULES: Mapping[Rule, tuple[str, ...]] = {
    roles: ("roles.*.replicas",),
    strategy: ("strategy", "roles.*.replicas"),
    success: ("success", "restart", "roles.*.restart"),
    restarts: ("restart", "roles.*.restart"),
    deadlines: ("deadlines.total", "deadlines.running"),
    output_dir: (),
    folders: (),
    clean_up: (),
    notify: (),
    pod_rules.limits: (),
    pod_rules.shared_memory: (
        "resources.memory",
        "resources.limits.memory",
        "roles.*.resources.memory",
        "roles.*.resources.limits.memory",
    ),
    pod_rules.gpus: (
        "resources.gpu",
        "resources.gpu_fraction",
        "resources.all_gpus",
        "roles.*.resources.gpu",
        "roles.*.resources.gpu_fraction",
        "roles.*.resources.all_gpus",
    ),
    pod_rules.programs: (),
    pod_rules.arguments: ("command",),
    pod_rules.lengths: (),
    pod_rules.environment: (),
    pod_rules.volumes: (),
    pod_rules.modes: (
        "volumes.*.empty_dir",
        "volumes.*.pvc",
        "roles.*.volumes.*.empty_dir",
        "roles.*.volumes.*.pvc",
    ),
    pod_rules.labels: (),
    pod_rules.tolerations: (
        "tolerations.*.operator",
        "tolerations.*.effect",
        "roles.*.tolerations.*.operator",
        "roles.*.tolerations.*.effect",
    ),
    pod_rules.patches: (),
}
"""Each rule, and the fields that it depends on: it is skipped if they cannot be read. `*` matches any key."""


def check(job: TrainingJob, broken: Collection[Path] = ()) -> list[Problem]:
    """Return the problems between the fields of `job`, without those that only follow from the fields in `broken`."""
    problems = [
        problem
        for rule, fields in RULES.items()
        if not any(_touches(field.split("."), path) for field in fields for path in broken)
        for problem in rule(job)
    ]
    return [problem for problem in problems if not any(_touches(problem.path, path) for path in broken)]


def _touches(pattern: Collection[str | int], path: Path) -> bool:
    """Tell whether one of the two paths is at or below the other."""
    return all(want in ("*", part) for want, part in zip(pattern, path, strict=False))
