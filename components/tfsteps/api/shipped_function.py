"""`train_function`: a function as a run, or as a step of a pipeline."""

import functools
import importlib.resources
import json
import pathlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, overload

import msgspec

from tfsteps.api import function_source, notebook_page
from tfsteps.api import functions as commands
from tfsteps.api.function_source import FunctionError, FunctionSource
from tfsteps.api.job_input import name_of
from tfsteps.api.replica.tfsteps_function import MARK
from tfsteps.api.results import Attempt
from tfsteps.console.errors import CommandError
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.report.html import tag
from tfsteps.runs import code_archive
from tfsteps.runs.code_archive import CodeError

P = ParamSpec("P")
R = TypeVar("R")
_PROGRAM = "tfsteps_function.py"


class FunctionRun(msgspec.Struct, frozen=True):
    """A function that has run.

    Attributes:
        attempt: The attempt.
        result: What the function returned in the chief, or in worker 0 if there is none.
        notes: Why the result is not known; empty = it is.
    """

    attempt: Attempt
    result: Any
    notes: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        result = notebook_page.frame(tag("pre", f"result {json.dumps(self.result)}"), notebook_page.notes(self.notes))
        return self.attempt._repr_html_() + result


class TrainFunction(Generic[P, R]):
    """A function whose replicas train a model; calling it runs it in this process, as it was written."""

    def __init__(
        self,
        function: Callable[P, R],
        *,
        workers: int,
        chief: bool,
        ps: int,
        image: str,
        requirements: Sequence[str],
        metrics: Sequence[str],
        name: str,
        spec: Mapping[str, Any],
    ) -> None:
        """Read the source. See `train_function`."""
        functools.update_wrapper(self, function)
        self._function = function
        self._source = function_source.read(function, complete=False)
        for option, value in (("requirements", requirements), ("metrics", metrics)):
            if isinstance(value, str):  # its characters would be the entries
                raise FunctionError(f"{option} is {value!r}, expected a list; write [{value!r}]")
        if fixed := [field for field in ("command", "args", "code") if field in spec]:
            raise FunctionError(f"spec has {fixed[0]!r}, which train_function sets; remove it")
        self._name = name or name_of(self._source.name) or "function"
        self._roles = {"chief": int(chief), "worker": workers, "ps": ps}
        self._image = image
        self._requirements = requirements
        self._metrics = {metric: f"result/{metric}" for metric in metrics}
        self._spec = spec

    def __call__(self, /, *args: P.args, **parameters: P.kwargs) -> R:
        """Call the function in this process."""
        return self._function(*args, **parameters)

    def job(self, /, **parameters: Any) -> dict[str, Any]:
        """Return the job that `run` runs, with the fields of a job file; its code is kept on this machine.

        FunctionError for wrong parameters, and for what the module has got since that cannot be shipped.
        """
        outputs = {**self._spec.get("outputs", {})}
        if self._metrics:
            outputs["metrics"] = {**self._metrics, **outputs.get("metrics", {})}
        roles = {role: {"replicas": number} for role, number in self._roles.items() if number}
        job = {"name": self._name, "roles": roles, **self._spec}
        if self._image:
            job["image"] = self._image
        if outputs:
            job["outputs"] = outputs
        args = function_source.words(self._source, parameters, references=False)
        return {**job, "command": ["python", _PROGRAM], "args": args, "code": {"digest": self._packed()}}

    def run(
        self,
        /,
        *,
        on: str | None = None,
        system: str | None = None,
        context: str = "",
        namespace: str = "",
        display: bool | None = None,
        **parameters: Any,
    ) -> FunctionRun:
        """Run the function in all replicas to their end, as `tfsteps.api.run` does.

        Args:
            on: local, kubernetes, or a platform's name; None = local.
            system: The job system; None = local, or on a cluster what fits it.
            context: Context of the kubeconfig; empty = the current one.
            namespace: Namespace on the cluster; empty = that of the context.
            display: Show status, last lines and curves while it runs; None = in notebooks only.
            **parameters: Those of the function.

        Raises:
            FunctionError: A parameter is unknown, missing or of another type, or the function now uses what cannot be
                shipped. Nothing was created.
            SpecError: The job cannot run on this system. Nothing was created.
            RunFailed: The job did not succeed.
            CommandError: It could not be launched, or could not be followed to its end.
        """
        attempt = commands.run(
            self.job(**parameters), on=on, system=system, context=context, namespace=namespace, display=display
        )
        decisive = attempt.status.decisive_replica
        lines = commands.logs(
            attempt.run, decisive, task=attempt.task, attempt=attempt.attempt, grep=f"^{MARK}", tail=1, on="local"
        )
        if not lines:
            return FunctionRun(attempt, None, (f"the log of {decisive} has no result",))
        return FunctionRun(attempt, json.loads(lines[0].text.removeprefix(MARK)))

    def kfp(self, /, **parameters: Any) -> Any:
        """Return a task of Kubeflow Pipelines, within a pipeline: `train` of `tfsteps.kfp`.

        Args:
            **parameters: Those of the function, or what the pipeline fills in.

        Raises:
            FunctionError: A parameter is unknown, missing or of another type.
        """
        from tfsteps.kfp import train  # noqa: PLC0415  runs need no engine

        return train(**self._inputs(parameters))

    def argo(self, name: str = "", /, **parameters: Any) -> Any:
        """Return a task or step of Hera, within a DAG or Steps: `train` of `tfsteps.argo`.

        Args:
            name: Name of the task; empty = the job's.
            **parameters: Those of the function, or what Argo fills in.

        Raises:
            FunctionError: A parameter is unknown, missing or of another type.
        """
        from tfsteps.argo import train  # noqa: PLC0415  runs need no engine

        return train(name, **self._inputs(parameters))

    def _inputs(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs of a step."""
        inputs: dict[str, Any] = {
            "name": self._name,
            "command": ["python", _PROGRAM],
            "args": function_source.words(self._source, parameters, references=True),
            "code": {"digest": self._packed()},
        }
        counts = {"workers": self._roles["worker"], "chief": self._roles["chief"], "ps": self._roles["ps"]}
        more = {"image": self._image, "metric_tags": self._metrics, "spec": dict(self._spec), **counts}
        return inputs | {key: value for key, value in more.items() if value}

    def _packed(self) -> str:
        """Pack the source with what the module has now, as a call would use it; return the digest of the archive."""
        with tempfile.TemporaryDirectory() as folder:
            _write(pathlib.Path(folder), function_source.read(self._function), self._requirements)
            try:
                return code_archive.pack(pathlib.Path(folder)).digest
            except CodeError as error:
                raise CommandError(f"the source of {self._source.name} cannot be packed: {error}") from error
            except OSError as error:
                wrong = f"the run folder cannot be used: {error}; set TFSTEPS_HOME"
                raise CommandError(wrong, ExitCode.PLATFORM) from error


def _write(folder: pathlib.Path, source: FunctionSource, requirements: Sequence[str]) -> None:
    """Write what is shipped."""
    texts = [name for name, parameter in source.parameters.items() if parameter.kind is str]
    program = importlib.resources.files("tfsteps.api.replica").joinpath(_PROGRAM).read_text(encoding="utf-8")
    files = {"function.py": source.text, _PROGRAM: program}
    files["function.json"] = json.dumps({"name": source.name, "text": texts})
    if requirements:
        files["requirements.txt"] = "".join(f"{line}\n" for line in requirements)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


@overload
def train_function(function: Callable[P, R], /) -> TrainFunction[P, R]: ...
@overload
def train_function(
    *,
    workers: int = 1,
    chief: bool = False,
    ps: int = 0,
    image: str = "",
    requirements: Sequence[str] = (),
    metrics: Sequence[str] = (),
    name: str = "",
    spec: Mapping[str, Any] | None = None,
) -> Callable[[Callable[P, R]], TrainFunction[P, R]]: ...
def train_function(
    function: Callable[P, R] | None = None,
    /,
    *,
    workers: int = 1,
    chief: bool = False,
    ps: int = 0,
    image: str = "",
    requirements: Sequence[str] = (),
    metrics: Sequence[str] = (),
    name: str = "",
    spec: Mapping[str, Any] | None = None,
) -> TrainFunction[P, R] | Callable[[Callable[P, R]], TrainFunction[P, R]]:
    """Make a function a job: a decorator, with or without arguments. Every replica calls the function.

    Its source is shipped without its module, with what it uses of it at the time of `run`, `job`, `kfp` or `argo`:
    imports of installed packages, constants that are JSON, and functions.
    Parameters have a type: int, float, str, bool, list or dict, or one of them or None. It returns None or JSON.

    Args:
        function: The function.
        workers: Number of workers.
        chief: Whether there is a chief.
        ps: Number of parameter servers.
        image: Container image of every role, with Python and TensorFlow; local runs do not use it.
        requirements: Packages that each replica installs by pip before it calls the function, above what is there.
        metrics: Names of numbers in the returned mapping that become metrics of the job.
        name: The job's name; empty = that of the function.
        spec: Further fields of the job, as in a job file.

    Raises:
        FunctionError: The function cannot be shipped; the message names the line.
    """

    def decorate(decorated: Callable[P, R]) -> TrainFunction[P, R]:
        return TrainFunction(
            decorated,
            workers=workers,
            chief=chief,
            ps=ps,
            image=image,
            requirements=requirements,
            metrics=metrics,
            name=name,
            spec=spec or {},
        )

    return decorate(function) if function else decorate
