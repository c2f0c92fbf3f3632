"""The metrics of an attempt: the last value of each requested curve in its event files."""

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tfsteps.tensorboard.event_curves import EventCurve, EventCurves
from tfsteps.tensorboard.event_files import FilePath
from tfsteps.tensorboard.event_origin import UNKNOWN, EventOrigin

_NAMED = 8
_KERAS = ["train", "validation"]  # the runs of its TensorBoard callback; its names of metrics mean the first

_EPOCH = "epoch_"  # with which that callback begins its tags
_RECORDED = ".tfsteps"  # ends the name of a file that `systems.local.startup.keras_history` writes


class AttemptMetrics(NamedTuple):
    """The metrics of an attempt.

    Attributes:
        values: The last value of each metric that has one; finite.
        notes: By metric: a sentence that says why it is not set, or what is not known of its value.
    """

    values: dict[str, float]
    notes: dict[str, str]


def collect(curves: EventCurves, tags: Mapping[str, str], origin: EventOrigin | None = None) -> AttemptMetrics:
    """Return the last value of each requested metric: the one written last, by TensorBoard's rule.

    Args:
        curves: What the event files hold.
        tags: Tag by name of the metric: `<run>/<tag>`, or the tag alone if only one run has it.
        origin: Which attempt wrote which file; None = they are not told apart.
    """
    if not curves.curves and curves.denied:
        return none_of(tags, f"this user may not read {curves.denied}")
    metrics = AttemptMetrics({}, {})
    for metric, tag in tags.items():
        matches = _matches(tag, curves.curves.values())
        last = matches[0].last if len(matches) == 1 else None
        if last is None or not matches[0].exact or not math.isfinite(last.value):
            metrics.notes[metric] = f"Metric {metric} is not set: {_why(tag, matches, curves, origin)}"
            continue
        metrics.values[metric] = last.value
        if doubts := list(_doubts(matches[0], last.file, curves, origin)):
            metrics.notes[metric] = f"Metric {metric}, {last.value:g} at step {last.step}: {'; '.join(doubts)}."
    return metrics


def recorded_tags(curves: EventCurves) -> dict[str, str]:
    """Return the tag of each metric of Keras' `fit` that tfsteps itself recorded, under Keras' name: `val_loss`.

    Of several models, the first.
    """
    tags = {}
    for curve in curves.curves.values():
        ours = all(curves.files[file].path.name.endswith(_RECORDED) for file in curve.files)
        if ours and curve.run in _KERAS and curve.tag.startswith(_EPOCH):
            name = curve.tag.removeprefix(_EPOCH)
            tags[name if curve.run == _KERAS[0] else f"val_{name}"] = curve.name
    return tags


def none_of(tags: Iterable[str], why: str) -> AttemptMetrics:
    """Return no values, and one sentence for all metrics."""
    sentence = f"No value of {', '.join(tags)}: {why}."
    return AttemptMetrics({}, dict.fromkeys(tags, sentence))


def _matches(tag: str, curves: Iterable[EventCurve]) -> list[EventCurve]:
    """Return the curves named exactly `tag`, else those with this tag in any run; of those of Keras, the training's."""
    curves = list(curves)
    if exact := [curve for curve in curves if curve.name == tag]:
        return exact
    matches = sorted((curve for curve in curves if curve.tag == tag), key=lambda curve: curve.run)
    return matches[:1] if [curve.run for curve in matches] == _KERAS else matches


def _doubts(curve: EventCurve, file: int, curves: EventCurves, origin: EventOrigin | None) -> Iterable[str]:
    """Yield what is not known of the last value of a curve, which the file at place `file` has."""
    if trouble := curves.trouble(curve.run, after=file):
        yield f"a later value may be missing, because {'; '.join(trouble)}"
    if rivals := curves.rivals(curve):
        yield f"{rivals[0]} and {rivals[1]} were written at the same time, and both have values of `{curve.name}`"
    if origin and (attempt := origin.attempt_of(curves.files[file].path)) != origin.attempt:
        who = "another job, or an attempt that is not known," if attempt == UNKNOWN else f"attempt {attempt}"
        yield f"{who} wrote it, and attempt {origin.attempt} wrote none"


def _why(tag: str, matches: Sequence[EventCurve], curves: EventCurves, origin: EventOrigin | None) -> str:
    if len(matches) == 1:
        curve, last = matches[0], matches[0].last
        if last is None or not curve.exact:
            return f"a restart has rewound the last values of `{tag}`, and none were written since."
        return f"the last value of `{tag}` is {last.value}, at step {last.step}."
    if len({curve.name for curve in matches}) < len(matches):
        runs = _listed(f"`{curve.run}`" for curve in matches)
        return f"`{tag}` is a curve in each of the runs {runs}; give one of them another tag."
    if matches:
        names = _listed(f"`{curve.name}`" for curve in matches)
        return f"`{tag}` is in {len(matches)} runs; write one of {names}."
    return f"{_absent(tag, curves)}{_unread(curves, origin)}."


def _absent(tag: str, curves: EventCurves) -> str:
    names = {curve.name for curve in curves.curves.values()}
    if not names:
        return f"no scalar was found in the event files for `{tag}`"
    nearest = sorted(names, key=lambda name: (-_likeness(tag, name), name))
    return f"there is no `{tag}`, but {_listed(f'`{name}`' for name in nearest)}"


def _unread(curves: EventCurves, origin: EventOrigin | None) -> str:
    """Return which files may have the missing values; empty = none."""
    trouble = list(dict.fromkeys(text for file in curves.files for text in curves.trouble(file.path.run)))
    trouble += [f"this user may not read {curves.denied}"] if curves.denied else []
    text = f"; {_listed(trouble)}" if trouble else ""
    if not (curves.left_out and origin):
        return text
    older = [file for file in curves.left_out if origin.predates(file)]
    other = [file for file in curves.left_out if not origin.predates(file)]
    if older:
        text += f"; {_shown(older)} existed before attempt {origin.attempt} (`outputs.earlier_attempts` counts them)"
    if other:
        text += f"; whether attempt {origin.attempt} wrote {_shown(other)} is not known: " + _UNKNOWN
    return text


_UNKNOWN = (
    "its name has no host name of the job's replicas, and the launcher did not see the folder before the job was "
    "started; mount the volume in the launcher's pod too"
)


def _shown(files: Sequence[FilePath]) -> str:
    return _listed(sorted(file.shown for file in files))


def _likeness(tag: str, name: str) -> float:
    return max(difflib.SequenceMatcher(None, tag, end).ratio() for end in (name, name.rpartition("/")[2]))


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
