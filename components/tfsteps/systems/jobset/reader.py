"""Reads a JobSet whose replicas are TensorFlow's. Pure."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from tfsteps.spec import RoleName
from tfsteps.spec.problems import shown
from tfsteps.systems.manifest.draft import NO_LIMIT, Draft, Imported
from tfsteps.systems.manifest.fields import Fields, NotUnderstoodError
from tfsteps.systems.manifest.pod import add_role, imported, read_metadata, read_pod, read_restart

SYSTEM = "jobset"
_ROLES: dict[str, RoleName] = {
    "chief": "chief",
    "master": "chief",
    "leader": "chief",
    "coordinator": "chief",
    "worker": "worker",
    "workers": "worker",
    "ps": "ps",
    "parameter-server": "ps",
    "evaluator": "evaluator",
    "eval": "evaluator",
}
_TRAINERS = ("chief", "worker")
_JOB_LIMIT = 6  # of a Kubernetes Job without backoffLimit
_FIRST = [{"succeededIndexes": "0"}]


def read_jobset(manifest: Fields, source: str, name: str, _api: str) -> Imported:
    """Return the job of a JobSet. NotUnderstoodError if its replicated jobs are not roles of TensorFlow's."""
    draft = Draft("spec.replicatedJobs", reads_gangs=True)
    read_metadata(draft, manifest, name, kueue=True)
    jobs = {fields.take(str, "name") or "": fields for fields in manifest.mappings("spec", "replicatedJobs")}
    deadlines: list[int] = []
    first_decides: list[RoleName] = []
    roles: dict[str, RoleName] = {}
    for job_name, fields in jobs.items():
        role = _ROLES.get(job_name.lower()) or (len(jobs) == 1 and "worker") or None
        if role is None:
            known = ", ".join(dict.fromkeys(_ROLES.values()))
            raise NotUnderstoodError(f"{fields.where('name')} = {job_name!r} is no role of TensorFlow's: {known}")
        roles[job_name] = role
        if _read_job(draft, role, fields, deadlines):
            first_decides.append(role)
        if role != job_name and role in draft.roles:
            draft.comments["roles", role] = f"was the replicated job {job_name}"
    _read_success(draft, manifest.inside("spec", "successPolicy"), roles, first_decides)
    _read_failure(draft, manifest.inside("spec", "failurePolicy"), jobs.keys())
    if len(set(deadlines)) > 1:
        draft.note("activeDeadlineSeconds differs between the Jobs: the shortest is the job's")
    draft.deadline(min(deadlines, default=None))
    draft.time_to_live(manifest.take(int, "spec", "ttlSecondsAfterFinished"))
    draft.suspend(SYSTEM, manifest.take(bool, "spec", "suspend"))
    network = manifest.inside("spec", "network")
    if network.take(bool, "enableDNSHostnames") is False:
        draft.note("spec.network.enableDNSHostnames = false: TF_CONFIG is made of host names, so they are on")
    network.take(bool, "publishNotReadyAddresses")
    if len(draft.roles) == 1:
        [only] = draft.roles.values()
        if "backoff_limit" in only:
            draft.fields["backoff_limit"] = only.pop("backoff_limit")
    return imported(draft, manifest, source, SYSTEM)


def _read_job(draft: Draft, role: RoleName, fields: Fields, deadlines: list[int]) -> bool:
    """Take a replicated job as a role; return whether the success of some of its pods is enough."""
    copies = fields.count("replicas")
    spec = fields.inside("template", "spec")
    together = spec.count("parallelism")
    completions = spec.take(int, "completions")
    if completions is not None and completions != (1 if together is None else together):
        raise NotUnderstoodError(
            f"{spec.where('completions')} is not parallelism: TensorFlow's replicas run at the same time"
        )
    spec.take(str, "completionMode")
    spec.take(str, "podReplacementPolicy")
    counts = {fields.where("replicas"): copies, spec.where("parallelism"): together}
    if (copies or 1) > 1:
        draft.note(f"{fields.where('replicas')} = {copies}: in a job file one Job has all replicas of a role")
    restart = _restart(spec)
    limit = spec.take(int, "backoffLimit")
    limit = _JOB_LIMIT if limit is None else limit
    if (seconds := spec.take(int, "activeDeadlineSeconds")) is not None:
        deadlines.append(seconds)
    rules = spec.take(list, "successPolicy", "rules") or []
    template = spec.inside("template")
    if not add_role(draft, role, fields.where(), counts):
        fields.take(dict, "template")
        return False
    if restart == "in_place":
        restart, limit = ("on_failure", limit - 1) if limit else ("never", 0)  # a Job ends when it reaches its limit
    elif limit == 0:
        restart = "never"
    if restart == "never":
        draft.roles[role] |= {"restart": restart}
    else:
        limit = draft.lowered(spec.where("backoffLimit"), max(limit, 0), NO_LIMIT)
        draft.roles[role] |= {"restart": restart, "backoff_limit": limit}
    draft.roles[role] |= read_pod(draft, role, template, container="")
    if rules not in ([], _FIRST):
        where = spec.where("successPolicy", "rules")
        draft.note(f"{where} = {shown(rules)}: in a job file, the first replica decides, or all do; now the first does")
    return bool(rules)


def _restart(spec: Fields) -> str:
    """Return how a failed pod is restarted, if the Job's limit allows it: `in_place`, `exit_code` or `on_failure`."""
    policy = read_restart(spec, "template", "spec", "restartPolicy")
    rules = spec.take(list, "podFailurePolicy", "rules") or []
    if rules:
        codes = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": list(range(1, 128))}}
        if len(rules) > 1 or not isinstance(rules[0], dict) or not _covers(rules[0], codes):
            raise NotUnderstoodError(
                f"{spec.where('podFailurePolicy')}: in a job file, exit codes 1 to 127 are final or none is"
            )
        return "exit_code"
    return "in_place" if policy in ("on_failure", "") else "on_failure"


def _covers(rule: Mapping[str, object], expected: Mapping[str, object]) -> bool:
    codes = rule.get("onExitCodes")
    if isinstance(codes, dict):
        codes = {key: value for key, value in codes.items() if key != "containerName"}
    return {**rule, "onExitCodes": codes} == expected


def _read_success(draft: Draft, policy: Fields, roles: dict[str, RoleName], first_decides: list[RoleName]) -> None:
    """Take which Jobs decide: the chief's, all that train, or with an index that does, the workers'."""
    operator = policy.take(str, "operator") or "All"
    targets = [roles[name] for name in map(str, policy.take(list, "targetReplicatedJobs") or roles) if name in roles]
    decides = "chief" if "chief" in draft.roles else "worker"
    trainers = [name for name in draft.roles if name in _TRAINERS]
    if operator == "All" and sorted(targets) == sorted(trainers) and not set(trainers) & set(first_decides):
        if sum(draft.roles[name].get("replicas", 1) for name in trainers) > 1:
            draft.fields["success"] = "all_workers"
    elif targets != [decides]:
        names = ", ".join(targets)
        draft.decide(("success",), "chief", f"the JobSet's success was {operator} of {names}: no job file can say that")


def _read_failure(draft: Draft, policy: Fields, jobs: AbstractSet[str]) -> None:
    """Take the restarts of all Jobs together; a JobSet without them fails with its first Job."""
    restarts = policy.take(int, "maxRestarts") or 0
    policy.take(str, "restartStrategy")
    for rule in policy.mappings("rules"):
        name = rule.take(str, "name")
        action, reasons = rule.take(str, "action"), rule.take(list, "onJobFailureReasons") or []
        targets = rule.take(list, "targetReplicatedJobs") or []
        if targets and set(map(str, targets)) != jobs:
            draft.note(f"{rule.where('targetReplicatedJobs')} = {shown(targets)}: in a job file it is for all roles")
        if action != "FailJobSet" or set(reasons) - {"BackoffLimitExceeded", "DeadlineExceeded", "PodFailurePolicy"}:
            draft.note(f"{rule.where()} ({name or action}): a job file has no rules of a failure policy")
    if not restarts:
        return
    for name, role in draft.roles.items():
        if name in _TRAINERS:
            role["restart"] = "on_failure" if role["restart"] == "never" else role["restart"]
            if role.pop("backoff_limit", 0):
                draft.note(f"backoffLimit of {name}: maxRestarts restarts all replicas together, and none alone")
    draft.fields["backoff_limit"] = draft.lowered(policy.where("maxRestarts"), restarts, NO_LIMIT)
    draft.option(SYSTEM, "restart_together", value=True)
