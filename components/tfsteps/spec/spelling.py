"""Suggestions for unknown words: a misspelling, another spelling, or the name in another system."""

import re
from collections.abc import Iterable
from typing import Any

_SHORT = 3  # characters: one other letter makes another word, as in `gpu` and `cpu`
_LONG = 6  # characters: a shorter word with two other letters is another word

_MANY = 3
_MOST = 0.7

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
    "volumemounts": "volumes",
    "claimname": "pvc",
    "persistentvolumeclaim": "pvc",
    "secretname": "secret",
    "secretkeyref": "secret",
    "configmapkeyref": "config_map",
    "fieldref": "field",
    "fieldpath": "field",
    "path": "mount",
    "mountpath": "mount",
    "failure": "failed",
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
    "multiworker": "multi_worker_mirrored",
    "webhook": "notify",
    "webhooks": "notify",
    "notifications": "notify",
    "on": "events",
    "all": "delete_pods",
    "running": "delete_pods",
    "none": "keep",
}

_MANIFEST = "Remove it: this file is not a Kubernetes object"
_ADVICE = {
    "envfrom": "Write each variable below `env:`, as `NAME: {secret: <name>, key: <key>}`",
    "apiversion": _MANIFEST,
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
_ADVICE |= dict.fromkeys(("kind", "metadata", "spec"), _MANIFEST)
_MISPLACED = {  # advice for names that are fields elsewhere
    "value": "Write the value itself in its place",
} | dict.fromkeys(
    ("cpu", "cpus", "memory", "mem", "ram", "gpu", "gpus", "gputype", "nvidia.com/gpu", "sharedmemory", "shm"),
    "Write it directly below `resources:`",
)


def nearest(word: str, allowed: Iterable[str]) -> str | None:
    """Return the one of `allowed` that was probably intended by `word`; None rather than a word of another meaning.

    Another spelling, a name in another system, a long word with a part missing or added at its end, or one slip of the
    hand, in long words two. Digits are no slips: `exp2` is not `exp3`.
    """
    names = {_bare(name): name for name in allowed}
    bare = _bare(word)
    if (known := _ELSEWHERE.get(bare)) in names.values() and bare not in names:
        return known
    parts = [name for name in names if min(len(name), len(bare)) >= _LONG and _begins(name, bare)]
    if len(parts) == 1:
        return names[parts[0]]
    slips = {name: edits(bare, name) for name in names if _digits(name) == _digits(bare)}
    fewest = min(slips.values(), default=_MANY)
    close = [name for name, count in slips.items() if count == fewest]
    if len(close) != 1 or fewest > (1 if len(bare) < _LONG else 2):
        return None
    return names[close[0]] if len(bare) > _SHORT or len(bare) != len(close[0]) else None


def edits(one: str, other: str) -> int:
    """Return how many letters are missing, added, replaced or swapped with the next; 3 = three or more."""
    if abs(len(one) - len(other)) >= _MANY:
        return _MANY
    rows = [[0] * (len(other) + 1), list(range(len(other) + 1))]
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, expected in enumerate(other, 1):
            row.append(min(rows[-1][j] + 1, row[j - 1] + 1, rows[-1][j - 1] + (letter != expected)))
            if i > 1 < j and (letter, one[i - 2]) == (other[j - 2], expected):
                row[j] = min(row[j], rows[-2][j - 2] + 1)
        rows.append(row)
    return min(rows[-1][-1], _MANY)


def _begins(one: str, other: str) -> bool:
    """Tell whether the shorter of two words is the beginning of the other, and most of it."""
    short, long = sorted((one, other), key=len)
    return long.startswith(short) and len(short) > _MOST * len(long) and _digits(short) == _digits(long)


def _digits(word: str) -> str:
    return re.sub(r"\D", "", word)


def advice(word: str, allowed: Iterable[str]) -> tuple[str, str | None]:
    """Return what to do about an unknown field `word`, and the one of `allowed` that was probably intended, if any."""
    names = set(allowed)
    if fix := _ADVICE.get(_bare(word)):
        return fix + (
            "; `name` and `roles` are top-level fields" if fix == _MANIFEST and "roles" in names else ""
        ), None
    if "roles" in names and (role := _role(word)) and role not in names:
        return f"Put it below `roles`: `roles: {{{role}: {{}}}}`", "roles"
    guess = nearest(word, allowed)
    misplaced = {} if {"cpu", "limits"} <= names else _MISPLACED  # these are the fields of `resources` themselves
    return (f"Write `{guess}`" if guess else misplaced.get(_bare(word), "Remove it")), guess


def _role(word: str) -> str:
    """Return the role that a word means; empty = none."""
    name = _ELSEWHERE.get(_bare(word), _bare(word).removesuffix("s") if len(word) > _SHORT else _bare(word))
    return name if name in ("chief", "worker", "ps", "evaluator") else ""


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
