"""Suggestions for unknown words: a misspelling, another spelling, or the name in another system."""

import re
from collections.abc import Iterable
from typing import Any

_CLOSE = 0.7  # below, `gpu` would be taken for `cpu`

_ELSEWHERE = {  # spelled without case and separators: names used by Kubernetes, TFJob, Docker and the like -> ours
    "master": "chief",
    "leader": "chief",
    "coordinator": "chief",
    "parameterserver": "ps",
    "parameterservers": "ps",
    "tfreplicaspecs": "roles",
    "replicaspecs": "roles",
    "replicas": "roles",
    "count": "replicas",
    "instances": "replicas",
    "restartpolicy": "restart",
    "successpolicy": "success",
    "cleanpodpolicy": "on_end",
    "cleanuppolicy": "on_end",
    "ttlsecondsafterfinished": "keep_for",
    "ttl": "keep_for",
    "activedeadlineseconds": "deadlines",
    "timeout": "deadlines",
    "retries": "backoff_limit",
    "maxretries": "backoff_limit",
    "maxrestarts": "backoff_limit",
    "entrypoint": "command",
    "cmd": "command",
    "arguments": "args",
    "environment": "env",
    "workdir": "working_dir",
    "cwd": "working_dir",
    "claimname": "pvc",
    "persistentvolumeclaim": "pvc",
    "secretname": "secret",
    "secretkeyref": "secret",
    "configmapkeyref": "config_map",
    "fieldref": "field",
    "fieldpath": "field",
    "path": "mount",
    "tolerationseconds": "seconds",
    "mem": "memory",
    "ram": "memory",
    "shm": "shared_memory",
    "shmsize": "shared_memory",
    "nvidia.com/gpu": "gpu",
    "accelerator": "gpu_type",
    "modeldir": "model",
    "modelpath": "model",
    "logdir": "logs",
    "podtemplate": "pod",
    "template": "pod",
    "podspec": "pod",
    "ps": "parameter_server",
    "mirrored": "single",
    "webhook": "notify",
    "webhooks": "notify",
    "notifications": "notify",
    "on": "events",
    "all": "delete_pods",
    "running": "delete_pods",
    "none": "keep",
}

_ADVICE = {
    "apiversion": "Remove it: this is a job file, not a Kubernetes object; `name` and `roles` are top-level fields",
    "requests": "Write cpu and memory one level up: they are the requests",
    "valuefrom": "Write {secret: <name>, key: <key>}, or {field: <path>}",
    "activedeadlineseconds": "Write `deadlines: {running: …}`",
    "timeout": "Write `deadlines: {total: …}`",
} | dict.fromkeys(
    (
        "affinity",
        "containers",
        "dnspolicy",
        "hostnetwork",
        "initcontainers",
        "priorityclassname",
        "runtimeclassname",
        "schedulername",
        "securitycontext",
        "terminationgraceperiodseconds",
        "topologyspreadconstraints",
    ),
    "Write it below `pod: {spec: …}`",
)
_ADVICE |= dict.fromkeys(("kind", "metadata", "spec"), _ADVICE["apiversion"])
_MISPLACED = {  # advice for names that are fields elsewhere
    "value": "Write the value itself in its place",
} | dict.fromkeys(
    ("cpu", "cpus", "memory", "mem", "ram", "gpu", "gpus", "gputype", "nvidia.com/gpu", "sharedmemory", "shm"),
    "Write it directly below `resources:`",
)


def nearest(word: str, allowed: Iterable[str]) -> str | None:
    """Return the one of `allowed` that was probably intended by `word`, or None."""
    import difflib  # noqa: PLC0415  not needed for a valid job

    names = {_bare(name): name for name in allowed}
    bare = _bare(word)
    if (known := _ELSEWHERE.get(bare)) in names.values() and bare not in names:
        return known
    close = difflib.get_close_matches(bare[:100], names, n=1, cutoff=_CLOSE)
    return names[close[0]] if close else None


def advice(word: str, allowed: Iterable[str]) -> tuple[str, str | None]:
    """Return what to do about an unknown field `word`, and the one of `allowed` that was probably intended, if any."""
    if fix := _ADVICE.get(_bare(word)):
        return fix, None
    guess = nearest(word, allowed)
    return (f"Write `{guess}`" if guess else _MISPLACED.get(_bare(word), "Remove it")), guess


def pair_names(value: Any) -> list[str]:
    """Return the names in `[{name: A, value: b}]`, `[{A: b}]` or `[A=b]`; empty for any other value."""
    names = [_pair_name(item) for item in (value if isinstance(value, list | tuple) else [value])]
    return [] if "" in names else names


def _pair_name(item: Any) -> str:
    match item:
        case {"name": str(name)}:
            return name
        case dict() if len(item) == 1:
            return str(next(iter(item)))
        case str() if "=" in item:
            return item.partition("=")[0].strip()
        case _:
            return ""


def _bare(word: str) -> str:
    return re.sub(r"[-_\s]", "", word).lower()
