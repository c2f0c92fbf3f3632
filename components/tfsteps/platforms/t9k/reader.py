"""Reads a TensorFlowTrainingJob of T9k. Pure."""

from typing import Any

from tfsteps.spec import ROLES, RoleName
from tfsteps.systems.manifest.draft import NO_LIMIT, Draft, Imported
from tfsteps.systems.manifest.fields import Fields, NotUnderstoodError
from tfsteps.systems.manifest.pod import imported, read_metadata, read_pod, read_replicas, read_restart, restarting

SYSTEM = "t9k"
_CLEAN_UP = {"none": "keep", "unfinished": "keep", "all": "delete_pods"}


def read_t9k(manifest: Fields, source: str, name: str, _api: str) -> Imported:
    """Return the job of a TensorFlowTrainingJob. NotUnderstoodError if it is none."""
    draft = Draft("spec.replicaSpecs")
    read_metadata(draft, manifest, name)
    for spec in manifest.mappings("spec", "replicaSpecs"):
        role = _role(spec)
        policy = read_restart(spec, "restartPolicy")
        template = spec.inside("template")
        template.take(str, "spec", "restartPolicy")  # the platform sets Never
        if not read_replicas(draft, role, spec):
            spec.take(dict, "template")
            continue
        if not policy:
            draft.comments["roles", role] = "restartPolicy is missing: its default is not documented; here it is never"
        draft.roles[role] |= {"restart": policy or "never", **read_pod(draft, role, template)}
    _read_policy(draft, manifest.inside("spec", "runPolicy"))
    scheduler = manifest.inside("spec", "scheduler", "t9kScheduler")
    if queue := scheduler.take(str, "queue"):
        draft.fields["queue"] = queue
        if (priority := scheduler.take(int, "priority")) is not None:
            draft.fields["priority"] = priority
    _read_tensorboard(draft, manifest.inside("spec", "tensorboardSpec"))
    _read_debug(draft, manifest.inside("spec", "runMode", "debug"))
    _read_pause(draft, manifest.inside("spec", "runMode", "pause"))
    return imported(draft, manifest, source, SYSTEM)


def _role(fields: Fields) -> RoleName:
    name = fields.take(str, "type") or ""
    if name not in ROLES:
        raise NotUnderstoodError(f"{fields.where('type')} = {name!r}: expected {', '.join(ROLES)}")
    return name


def _read_policy(draft: Draft, policy: Fields) -> None:
    limit = policy.take(int, "backoffLimit")
    if restarting(draft):
        reason = "" if limit is not None else "backoffLimit is missing: no limit"
        most = NO_LIMIT if limit is None else draft.lowered(policy.where("backoffLimit"), limit, NO_LIMIT)
        draft.decide(("backoff_limit",), most, reason)
    draft.deadline(policy.take(int, "activeDeadlineSeconds"))
    if clean := policy.take(str, "cleanUpPolicy"):
        if clean.lower() not in _CLEAN_UP:
            raise NotUnderstoodError(f"{policy.where('cleanUpPolicy')} = {clean!r}: expected None, All or Unfinished")
        draft.fields["on_end"] = _CLEAN_UP[clean.lower()]
        if clean.lower() != "unfinished":
            draft.option(SYSTEM, "clean_up", clean.lower())


def _read_tensorboard(draft: Draft, board: Fields) -> None:
    image = board.take(str, "image")
    sets = board.take(list, "trainingLogFilesets") or []
    for claim in board.mappings("logDir", "pvc"):
        name, folders = claim.take(str, "name") or "", claim.take(list, "subPath") or [""]
        sets += [f"t9k://pvc/{name}/{str(folder).lstrip('/')}" for folder in folders]
    bucket = board.inside("logDir", "s3")
    s3 = {"secret": bucket.take(str, "secretRef", "name"), "uris": bucket.take(list, "uri")}
    urls = board.take(list, "logDir", "http", "url")
    queue = board.take(str, "scheduler", "t9kScheduler", "queue")
    resources = board.take(dict, "resources")
    if image or sets or s3["uris"] or urls:
        draft.fields["tensorboard"] = {"image": image} if image else {}
        draft.option(SYSTEM, "tensorboard_file_sets", sets)
        draft.option(
            SYSTEM, "tensorboard_s3", {key: value for key, value in s3.items() if value} if s3["uris"] else None
        )
        draft.option(SYSTEM, "tensorboard_urls", urls)
        draft.option(SYSTEM, "tensorboard_queue", queue)
        draft.option(SYSTEM, "tensorboard_resources", resources)
    elif queue or resources or s3["secret"]:
        draft.note(f"{board.where()} names no logs and no image: the job has no TensorBoard")


def _read_debug(draft: Draft, debug: Fields) -> None:
    if not debug.take(bool, "enabled"):
        if debug.take(list, "replicaSpecs"):
            draft.note(f"{debug.where('replicaSpecs')}: had no effect; debug mode is not enabled")
        return
    draft.option(SYSTEM, "debug", value=True)
    commands: dict[str, Any] = {}
    skips = {}
    for spec in debug.mappings("replicaSpecs"):
        role = _role(spec)
        commands[role] = spec.take(list, "command") or []
        skips[role] = bool(spec.take(bool, "skipInitContainer"))
    draft.option(SYSTEM, "debug_commands", commands)
    _read_skips(draft, "debug_skip_init_containers", skips)


def _read_pause(draft: Draft, pause: Fields) -> None:
    draft.suspend(SYSTEM, pause.take(bool, "enabled"))
    programs: dict[str, dict[str, Any]] = {"command": {}, "args": {}}
    skips = {}
    for spec in pause.mappings("resumeSpecs"):
        role = _role(spec)
        for field, by_role in programs.items():
            if (words := spec.take(list, field)) is not None:
                by_role[role] = words
        skips[role] = bool(spec.take(bool, "skipInitContainer"))
    draft.option(SYSTEM, "resume_commands", programs["command"])
    draft.option(SYSTEM, "resume_args", programs["args"])
    _read_skips(draft, "resume_skip_init_containers", skips)


def _read_skips(draft: Draft, option: str, skips: dict[RoleName, bool]) -> None:
    """Set whose init containers are left out."""
    if all(skips.get(role) for role in draft.roles):
        draft.option(SYSTEM, option, value=True)
    elif any(skips.values()):
        draft.option(SYSTEM, option, {role: True for role, skip in skips.items() if skip})
