"""What the `train` component runs: from executor input to job, to exit code and outputs."""

import contextlib
import datetime as dt
import os
import pathlib
import shutil
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import msgspec

from tfsteps import spec, systems
from tfsteps.engines.kfp.executor import ExecutorInput
from tfsteps.engines.kfp.task_config import partial_job
from tfsteps.exits import Exit, exit_code
from tfsteps.identity import Identity
from tfsteps.job_inputs import plain_job
from tfsteps.launch import launch
from tfsteps.printer import Printer
from tfsteps.records import Attempt, Status
from tfsteps.spec import Problem, SpecError, TrainingJob, format_duration
from tfsteps.systems.base import LaunchError, System

DATA = "TFSTEPS_DATA"
"""The variable in which every replica finds the input `data`."""

TENSORBOARD_URL = "TFSTEPS_TENSORBOARD_URL"
"""Address of a TensorBoard that somebody else keeps up over this job's event files."""

_TERMINATION_LOG = pathlib.Path("/dev/termination-log")
_IN_POD = "KUBERNETES_SERVICE_HOST"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job that `argv` describes to its end and return the exit code; None = the process's own arguments."""
    try:
        task = ExecutorInput.from_arguments(sys.argv[1:] if argv is None else argv)
        status = _train(task)
        _write_outputs(task, status)
    except SpecError as error:
        sys.stderr.write(f"{error}\n")
        count = len(error.problems)
        return _end(f"Nothing was created: {count} problem{'s'[: count > 1]} in the inputs.", Exit.USAGE)
    except ValueError as error:
        return _end(f"Nothing was created: {error}.", Exit.USAGE)
    except LaunchError as error:
        return _end(f"The job could not be launched: {error}.", Exit.PLATFORM if error.retryable else Exit.USAGE)
    except OSError as error:
        return _end(f"The outputs could not be written: {error}.", Exit.PLATFORM)
    return _end(_sentence(status), exit_code(status))


def _train(task: ExecutorInput) -> Status:
    inputs = task.parameters
    job = spec.from_plain(plain_job(inputs, partial_job(inputs.get("task_config"))), "inputs", systems.options())
    if data := inputs.get("data"):  # afterwards, for the names of our own variables are forbidden in a job
        job = msgspec.structs.replace(job, env={**job.env, DATA: data})
    system = _system(inputs.get("system") or "auto")
    identity = task.identity()
    identity = msgspec.structs.replace(identity, attempt=system.attempt(identity.run, identity.task))
    return _launch(job, system, identity)


def _launch(job: TrainingJob, system: System, identity: Identity) -> Status:
    printer = Printer(title=job.name)  # on a cluster the task is a uuid
    known = system.warnings(job)
    for warning in known:
        printer.say(f"warning: {warning}")
    url = os.environ.get(TENSORBOARD_URL, "")
    status = launch(job, identity, system, here=pathlib.Path.cwd(), observers=[printer], tensorboard_url=url)
    for warning in status.warnings:
        if warning not in known:
            printer.say(f"warning: {warning}")
    return status


def _system(name: str) -> System:
    """Return the job system called `name`; `auto` = kubeflow in a pod, else local. SpecError for an unknown one."""
    if name == "auto":
        name = "kubeflow" if _IN_POD in os.environ else "local"
    if name in systems.available():
        return systems.get(name)
    allowed = ", ".join(systems.available())
    unknown = Problem(path=("system",), value=name, wrong="is not a job system", allowed=allowed, fix="Name one")
    raise SpecError([unknown], "inputs")


def _write_outputs(task: ExecutorInput, status: Status) -> None:
    """Write every output, those of a failed job too. OSError if the disk does not take them."""
    attempt = Attempt.of(status.identity)
    for source, name in ((attempt.log, "logs"), (attempt.report, "report")):
        if source.exists() and (output := task.output(name)):
            target = output.path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    parameters = {
        "job": _job(status),
        "tensorboard_url": status.tensorboard_url,
        "digest": status.digest.summary if status.digest else "",
    }
    metadata: dict[str, dict[str, Any]] = {
        "model": {"path": status.model},
        "logs": {"path": status.logs},
        "metrics": status.metrics,
    }
    task.write(parameters, metadata)


def _job(status: Status) -> dict[str, Any]:
    return {
        "name": status.job,
        "uid": status.uid,
        "system": status.system,
        "namespace": status.namespace,
        "state": status.state,
        "started": _iso(status.started),
        "ended": _iso(status.ended),
        "output": status.output,
        "model": status.model,
        "logs": status.logs,
    }


def _iso(seconds: float | None) -> str | None:
    return None if seconds is None else dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(timespec="milliseconds")


def _sentence(status: Status) -> str:
    took = f" after {format_duration(status.ended - status.created)}" if status.ended else ""
    why = status.digest.summary if status.digest else status.message
    return f"{status.job} {status.state}{took}" + (f": {why}" if why else ".")


def _end(sentence: str, code: Exit) -> int:
    """Say how it ended, to people and to Kubernetes."""
    if _TERMINATION_LOG.is_file():
        _TERMINATION_LOG.write_text(sentence)
    Printer().say(sentence)
    return code


def _leave(code: int) -> NoReturn:
    """End this process, but do not take the interpreter apart: that lasts as long as all else after a job's end."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    _leave(main())
