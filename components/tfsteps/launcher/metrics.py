"""The metrics of a job: the last value of each requested curve in its event files."""

import difflib
import math
import os
from collections.abc import Iterable, Mapping

from tfsteps.spec import is_uri
from tfsteps.tensorboard.event_files import Scalar, ScalarReader

_NAMED = 8


def collect(logdir: str | os.PathLike[str], tags: Mapping[str, str]) -> tuple[dict[str, float], list[str]]:
    """Return the last value of each requested metric, and a sentence for each that has none.

    The last value is that of the highest step, and among equal steps the one written last.

    Args:
        logdir: Folder of the event files; a URI is not read. Empty = the files are lost with the replicas.
        tags: Tag by name of the metric: `<run>/<tag>`, or the tag alone if only one run has it.
    """
    if not tags:
        return {}, []
    if not logdir or is_uri(os.fspath(logdir)):
        where = f"at {logdir}, which cannot be read from here" if logdir else "lost with the replicas: set `output_dir`"
        return {}, [f"No value of {', '.join(tags)}: the event files are {where}."]
    last, trouble = _last_values(logdir)
    if trouble:
        return {}, [f"No value of {', '.join(tags)}: {trouble}."]
    values: dict[str, float] = {}
    missing: list[str] = []
    for metric, tag in tags.items():
        matches = _matches(tag, last)
        if len(matches) == 1 and math.isfinite(matches[0].value):
            values[metric] = matches[0].value
        else:
            missing.append(f"Metric {metric} is not set: {_why(tag, matches, last)}")
    return values, missing


def _last_values(logdir: str | os.PathLike[str]) -> tuple[list[Scalar], str]:
    """Return the last value of each curve, and why there can be none; empty = the folder was read."""
    last: dict[tuple[str, str], Scalar] = {}
    reader = ScalarReader(logdir)
    while True:
        for scalar in reader.poll():
            key = scalar.run, scalar.tag
            known = last.get(key)
            if known is None or (scalar.step, scalar.wall_time) >= (known.step, known.wall_time):
                last[key] = scalar
        if not reader.behind:
            break
    if not last and reader.denied:
        return [], f"this user may not read {reader.denied}"
    if not last and not os.path.isdir(logdir):  # noqa: PTH112
        return [], f"the folder of the event files, {os.fspath(logdir)}, does not exist"
    return list(last.values()), ""


def _matches(tag: str, scalars: Iterable[Scalar]) -> list[Scalar]:
    """Return the scalars named exactly `tag`, else the scalars with this tag in any run."""
    scalars = list(scalars)
    return [s for s in scalars if s.name == tag] or [s for s in scalars if s.tag == tag]


def _why(tag: str, matches: list[Scalar], scalars: list[Scalar]) -> str:
    if len(matches) == 1:
        return f"the last value of `{tag}` is {matches[0].value}, at step {matches[0].step}."
    if len({match.name for match in matches}) < len(matches):
        runs = _listed(f"`{match.run}`" for match in sorted(matches))
        return f"`{tag}` is a curve in each of the runs {runs}; give one of them another tag."
    if matches:
        runs = _listed(f"`{name}`" for name in sorted({match.name for match in matches}))
        return f"`{tag}` is in {len(matches)} runs; write one of {runs}."
    if not scalars:
        return f"no scalar was found in the event files for `{tag}`."
    nearest = sorted({scalar.name for scalar in scalars}, key=lambda name: (-_likeness(tag, name), name))
    return f"there is no `{tag}`, but {_listed(f'`{name}`' for name in nearest)}."


def _likeness(tag: str, name: str) -> float:
    return max(difflib.SequenceMatcher(None, tag, end).ratio() for end in (name, name.rpartition("/")[2]))


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
