"""A status as what the commands print: JSON for programs, lines for people."""

import contextlib
import enum
import json
import pathlib
import sys
import time
from typing import Any

import msgspec

from tfsteps.console import run_tree
from tfsteps.console.text import NOT_KNOWN, clean, columns, duration, iso, local_time
from tfsteps.masking import hidden
from tfsteps.runs.code import image_line
from tfsteps.runs.events import State
from tfsteps.runs.graph import Node
from tfsteps.runs.output_paths import filled
from tfsteps.runs.pipeline_record import PipelineRecord
from tfsteps.runs.status import ReplicaStatus, Status
from tfsteps.runs.store import AttemptFolder
from tfsteps.runs.usage import UsageSummary
from tfsteps.spec import RoleName, format_bytes
from tfsteps.text.streams import takes_any


class OutputFormat(enum.StrEnum):
    """What `--output` takes."""

    TEXT = "text"
    JSON = "json"


REPLICA_COLUMNS = ("REPLICA", "STATE", "RESTARTS", "EXIT", "PLACE", "ELAPSED", "CPU", "MEMORY")
_VARIABLES = {
    "model": ("TFSTEPS_MODEL_DIR", 'model.export(os.environ["TFSTEPS_MODEL_DIR"])'),
    "event files": ("TFSTEPS_LOG_DIR", 'callbacks=[keras.callbacks.TensorBoard(os.environ["TFSTEPS_LOG_DIR"])]'),
}
_FEW = 4
"""Replicas whose last lines a user still sees when the job has ended."""

_TIMES = {"at", "created", "started", "ended"}


def outputs(status: Status) -> dict[str, Any]:
    """Return the outputs of a job: what `tfsteps run --output json` prints.

    Paths of missing files are empty. Times in the future, and the failure of a job that did not fail, are null.
    """
    attempt = AttemptFolder.of(status.identity)
    return {
        "run": status.identity.run,
        "task": status.identity.task,
        "attempt": status.identity.attempt,
        "job": {
            "name": status.job,
            "uid": status.uid,
            "system": status.system,
            "namespace": status.namespace,
            "state": status.state.value,
            "reason": status.reason,
            "message": status.message,
            "started": iso(status.started),
            "ended": iso(status.ended),
        },
        "model": filled(status.model),
        "metrics": status.metrics,
        "metric_notes": status.metric_notes,
        "logs": filled(status.logs),
        "tensorboard_url": status.tensorboard_url,
        "failure": msgspec.to_builtins(status.failure),
        "report": _existing(attempt.report),
    }


def plain(status: Status) -> dict[str, Any]:
    """Return the whole status as plain data, its times in ISO form, with the paths of its files."""
    attempt = AttemptFolder.of(status.identity)
    paths = {"folder": attempt.folder, "log": attempt.log, "report": attempt.report}
    data = msgspec.to_builtins(status) | {"metrics": {}, "metric_notes": {}}  # names of users may be those of times
    return {
        **with_iso_times(data),
        "metrics": status.metrics,
        "metric_notes": status.metric_notes,
        **{name: _existing(path) for name, path in paths.items()},
    }


def print_json(data: Any) -> None:
    """Print one JSON value to standard output."""
    encoded = msgspec.json.encode(data)
    if takes_any(sys.stdout):
        sys.stdout.write(msgspec.json.format(encoded).decode() + "\n")
    else:  # JSON's own escapes
        sys.stdout.write(json.dumps(json.loads(encoded), indent=2) + "\n")


def print_table(header: tuple[str, ...], rows: list[list[str]], spare: tuple[str, ...] = ()) -> None:
    """Print a table: fitted to a terminal, else aligned with nothing cut."""
    if not sys.stdout.isatty():
        print("\n".join(columns([header, *rows])))
        return
    from rich.console import Console  # noqa: PLC0415  only terminals need it

    from tfsteps.console.tables import table  # noqa: PLC0415

    console = Console(highlight=False)
    for line in table(header, rows, console.width, spare):
        console.print(line)


def print_tree(run: str, root: Node) -> None:
    """Print the id of a run, and its graph as a tree: fitted to a terminal, else with nothing cut."""
    print(f"{'run':<12} {clean(run)}")
    any_character = takes_any(sys.stdout)
    if not sys.stdout.isatty():
        print("\n".join(map(str, run_tree.tree(root, any_character=any_character))))
        return
    from rich.console import Console  # noqa: PLC0415  only terminals need it

    from tfsteps.console.tables import tree_line  # noqa: PLC0415

    console = Console(highlight=False)
    for line in run_tree.tree(root, width=console.width, any_character=any_character):
        console.print(tree_line(line))


def graph_data(root: Node) -> Any:
    """Return a graph as plain data, its times in ISO form."""
    return with_iso_times(msgspec.to_builtins(root))


def replica_row(replica: ReplicaStatus, now: float) -> list[str]:
    """Return a replica as a row of `REPLICA_COLUMNS`, after its newest incarnation."""
    row = [replica.name, replica.state.value, str(replica.restarts)]
    if not replica.incarnations:
        return [*row, "-", "-", "-", "-", "-"]
    incarnation = replica.incarnations[-1]
    code = "-" if incarnation.exit_code is None else str(incarnation.exit_code)
    return [
        *row,
        f"{code} {incarnation.reason}".strip(),
        incarnation.place or "-",
        duration((incarnation.ended or now) - incarnation.started),
        duration(incarnation.cpu_seconds),
        "-" if incarnation.memory_bytes is None else format_bytes(incarnation.memory_bytes),
    ]


def results(status: Status, *, log_shown: bool = False) -> list[str]:
    """Return the lines that say where the results are, and why the job failed if it did; the last is the verdict.

    Args:
        status: Of an ended job.
        log_shown: Whether the log has just been printed: of a job of few replicas, what the log or the verdict has is
            not repeated.
    """
    values = outputs(status)
    facts = {
        "model": values["model"] or _none(status, status.model, "model"),
        "metrics": ", ".join(f"{name} {value:.6g}" for name, value in status.metrics.items()),
        "usage": "; ".join(used for role, summary in status.usage.items() if (used := _used(role, summary))),
        "event files": values["logs"] or _none(status, status.logs, "event files"),
        "tensorboard": status.tensorboard_url,
        "log": _existing(AttemptFolder.of(status.identity).log),
        "report": values["report"],
    }
    lines = [f"{name:<12} {hidden(value)}" for name, value in facts.items() if value]
    return [*lines, *_why(status, log_shown=log_shown and len(status.replicas) <= _FEW), verdict(status)]


def verdict(status: Status) -> str:
    """Return the state of the job as one sentence: `mnist succeeded after 12s.`."""
    took = "" if status.ended is None else _after(status.ended - status.created)
    why = status.failure.summary if status.failure else status.message
    name = clean(status.identity.task)
    return f"{name} {status.state}{took}: {clean(why)}" if why else f"{name} {status.state}{took}."


def pipeline_verdict(record: PipelineRecord) -> str:
    """Return the state of a pipeline as one sentence: `mnist failed after 12s: step train failed with exit code 10`."""
    took = "" if record.ended is None else _after(record.ended - record.created)
    why = f": {clean(record.message)}" if record.message else "."
    return f"{clean(record.pipeline)} {'is running' if record.state is State.RUNNING else record.state}{took}{why}"


def links(status: Status) -> dict[str, str]:
    """Return the paths of an attempt's report and log on this machine, as far as they exist."""
    attempt = AttemptFolder.of(status.identity)
    paths = {"report": attempt.report, "log": attempt.log}
    return {name: str(path) for name, path in paths.items() if path.exists()}


def headline(status: Status) -> list[str]:
    """Return the lines that describe an attempt, without its results."""
    facts = {
        "run": status.identity.run,
        "task": f"{status.identity.task}, attempt {status.identity.attempt}",
        "pipeline": status.identity.pipeline,
        "job": f"{status.job} on {status.system}"
        + (f", namespace {status.namespace}" if status.namespace else "")
        + (f", cluster {status.cluster}" if status.cluster else ""),
        "created": f"{local_time(status.created)} ({_age(time.time() - status.created)})",
        "code": str(status.code or ""),
        "image": image_line(status.images),
        "launcher": f"pid {status.launcher}" if status.launcher and not status.state.terminal else "",
    }
    return [f"{name:<12} {clean(value)}" for name, value in facts.items() if value]


def _after(seconds: float) -> str:
    took = duration(seconds)
    return f", its duration is {took}" if took == NOT_KNOWN else f" after {took}"


def _age(seconds: float) -> str:
    age = duration(seconds)
    return (
        "in the future: the clock of this machine, or of its launcher, is wrong" if age == NOT_KNOWN else f"{age} ago"
    )


def _used(role: RoleName, summary: UsageSummary) -> str:
    """Return mean and peak of one replica of a role: `worker 0.98 cores (peak 1), 1.1 GiB (peak 1.2 GiB)`."""
    parts = []
    if summary.cpu_mean is not None and summary.cpu_peak is not None:
        parts.append(f"{summary.cpu_mean:.2g} cores (peak {summary.cpu_peak:.2g})")
    if summary.memory_mean is not None and summary.memory_peak is not None:
        parts.append(f"{format_bytes(round(summary.memory_mean))} (peak {format_bytes(summary.memory_peak)})")
    if summary.gpu_mean is not None and summary.gpu_peak is not None:
        parts.append(f"{summary.gpu_mean:.2g} GPUs (peak {summary.gpu_peak:.2g})")
    return f"{role} {', '.join(parts)}" if parts else ""


def _why(status: Status, *, log_shown: bool) -> list[str]:
    failure = status.failure
    if failure is None:
        return []
    lacks_tensorflow = status.on_this_machine and failure.exception.endswith("No module named 'tensorflow'")
    if log_shown:
        failure = msgspec.structs.replace(failure, tail=[], exit_code=None, exception="", frame="")
    advice = {
        "platform": "the same job may succeed next time",
        "user": "retrying will not help: fix the program or the job file first",
    }
    facts = {
        "failed first": failure.replica,
        "exit code": f"{failure.exit_code}: {failure.meaning}" if failure.exit_code is not None else "",
        "exception": failure.exception,
        "at": failure.frame,
        "what helps": failure.hint,
        "retry": advice.get(failure.fault, ""),
        "install": lacks_tensorflow
        * "pip install 'tfsteps[tensorflow]', or the TensorFlow of your choice, beside tfsteps",
    }
    lines = [f"{name:<12} {clean(value)}" for name, value in facts.items() if value]
    return [*(f"  | {clean(line)}" for line in failure.tail), *lines]


def _none(status: Status, folder: str, what: str) -> str:
    """Return that a job that has succeeded wrote nothing to a folder, and the line that would; empty = not known."""
    if status.state is not State.SUCCEEDED or not folder or not pathlib.Path(folder).is_dir():
        return ""
    return f"none: no {what} in {_VARIABLES[what][0]}; in Keras: {_VARIABLES[what][1]}"


def _existing(path: pathlib.Path) -> str:
    """Return the path of a file that exists; empty for a missing one, as on another machine."""
    return str(path) if path.exists() else ""


def with_iso_times(data: Any) -> Any:
    """Return plain data with the times in it, seconds since the epoch, in ISO form."""
    if isinstance(data, dict):
        return {key: iso(value) if key in _TIMES else with_iso_times(value) for key, value in data.items()}
    return [with_iso_times(item) for item in data] if isinstance(data, list | tuple) else data


def forget_tensorboard(attempt: AttemptFolder) -> None:
    """Remove TensorBoard's address from an attempt's status and report, since TensorBoard is about to exit."""
    from tfsteps import report  # noqa: PLC0415  commands start faster without it

    status = attempt.status()
    if status.tensorboard_url:
        status.tensorboard_url = ""
        with contextlib.suppress(OSError):  # a full disk: the address stays, no more
            attempt.write(status)
            report.write(attempt)
