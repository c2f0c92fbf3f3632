"""Pipelines of Kubeflow Pipelines: found in a program, compiled and checked, and single tasks of them."""

import pathlib
import re
import sys
import tempfile
import types
import warnings as python_warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.engines.authoring import SETTINGS, Authoring, Document, PipelineTask
from tfsteps.engines.kfp import version1
from tfsteps.engines.kfp.executor import whole_numbers
from tfsteps.engines.kfp.graph import INPUT, UNKNOWN, Call, Node, calls, parameters, short
from tfsteps.engines.kfp.inputs import decoded, typed
from tfsteps.engines.kfp.lint import platform_settings
from tfsteps.engines.kfp.task_config import partial_job, task_config
from tfsteps.kube.resource import CLAIMS
from tfsteps.systems.kubernetes.preflight.references import CONFIG_MAPS, SECRETS, Reference

_OF_RUN = re.compile(r"\{\{\$\.(pipeline_\w+)\}\}")
_NOT_FINITE = re.compile(r"Fail to serialize (NaN|-?Infinity)\b")
_NOT_INPUTS = {"run_id", "task_config"}  # the engine sets them
_RESOURCES = {"cpu": "resourceCpu", "memory": "resourceMemory"}
_NOT_TAKEN = {"nodeAffinity": "the node affinity", "podAffinity": "the pod affinity"}
NAMESPACE = "kubeflow"
"""Namespace of runs in a single-user installation of Kubeflow Pipelines, whose API does not return one."""

_MOUNTS = (
    ("pvcMount", "pvcName", CLAIMS),
    ("secretAsVolume", "secretName", SECRETS),
    ("secretAsEnv", "secretName", SECRETS),
    ("configMapAsVolume", "configMapName", CONFIG_MAPS),
    ("configMapAsEnv", "configMapName", CONFIG_MAPS),
)


class KubeflowAuthoring(Authoring):
    """Kubeflow Pipelines."""

    macros = (
        re.compile(r"\[\[(?:ScheduledTime|CurrentTime|RunUUID|Index)[^\]]*\]\]"),  # of version 1
        re.compile(r"\{\{\s*\$[^{}]*\}\}"),
    )
    macro_fix = (
        "Kubeflow Pipelines 2 does not replace it in the inputs of every run. In the pipeline, pass "
        "dsl.PIPELINE_JOB_SCHEDULE_TIME_UTC_PLACEHOLDER to the task, as the whole of an input; it needs version 2.16"
    )

    def ignore_warnings(self) -> None:
        """Ignore what the SDK plans for its own defaults: nothing that an author acts on."""
        python_warnings.filterwarnings("ignore", "The default base_image", FutureWarning)
        python_warnings.filterwarnings("ignore", module=r"kfp(\.|$)")

    def pipelines(self, module: types.ModuleType) -> dict[str, tuple[Any, Callable[[], str]]]:
        """Return the functions of the program that are pipelines; those that it imports are not its own."""
        if "kfp" not in sys.modules:
            return {}
        from kfp.dsl.graph_component import GraphComponent  # noqa: PLC0415  the program has imported it

        def compiler(pipeline: Any) -> Callable[[], str]:
            return lambda: compiled_text(pipeline)

        named = {name: value for name, value in vars(module).items() if isinstance(value, GraphComponent)}
        return {
            name: (pipeline, compiler(pipeline))
            for name, pipeline in named.items()
            if pipeline.pipeline_func.__module__ == module.__name__
        }

    def program_fix(self, error: BaseException) -> str:
        """Return what replaces a name of version 1, or a number that JSON does not have."""
        if _NOT_FINITE.search(str(error)):
            return "NaN and infinity cannot be an input of a task: write a finite number, or text"
        return version1.program_fix(error)

    def reads(self, documents: Sequence[Document]) -> bool:
        """Tell whether the first document is a pipeline spec."""
        return "pipelineInfo" in documents[0] or "deploymentSpec" in documents[0]

    def title(self, document: Document) -> str:
        """Return the name of the pipeline."""
        return str(document.get("pipelineInfo", {}).get("name", "pipeline"))

    def lint_messages(self, text: str) -> list[str]:
        """Return what fails on the back end."""
        from tfsteps.engines.kfp import lint  # noqa: PLC0415  one engine is enough

        return lint.lint_messages(text)

    def warnings(self, text: str) -> list[str]:
        """Return what may fail on the back end."""
        from tfsteps.engines.kfp import lint  # noqa: PLC0415

        return lint.warnings(text)

    def references(self, documents: Sequence[Document]) -> Iterator[tuple[str, list[Reference]]]:
        """Yield what the pods of a pipeline with the defaults of its inputs need."""
        yield NAMESPACE, list(pod_references(documents, {}))

    def task_paths(self, documents: Sequence[Document]) -> list[str]:
        """Return the tasks that start a container."""
        return task_paths(documents)

    def task(self, documents: Sequence[Document], path: str, values: Mapping[str, str], run: str) -> PipelineTask:
        """Return a task with the inputs of its step."""
        return pipeline_task(documents, path, values, run)


def compiled_text(pipeline: Any) -> str:
    """Return the pipeline, the result of `@dsl.pipeline` or loaded from a text, as `kfp.compiler` writes it."""
    from kfp import compiler  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "pipeline.yaml")
        compiler.Compiler().compile(pipeline, str(file))
        return file.read_text("utf-8")


AUTHORING = KubeflowAuthoring()


def task_paths(documents: Sequence[Document]) -> list[str]:
    """Return the tasks that start a container; see `Authoring.task_paths`."""
    return [call.name for call in calls(documents[0]) if call.container]


def pipeline_task(documents: Sequence[Document], path: str, values: Mapping[str, str], run: str) -> PipelineTask:
    """Return a task with its inputs; arguments and errors as for `Authoring.task`."""
    spec, *platforms = documents
    definitions = parameters(spec["root"])
    arguments = typed({name: text for name, text in values.items() if "." not in name}, definitions, definitions)

    def supply(name: str, kind: str) -> Any:
        return decoded(name, values[name], kind) if name in values else UNKNOWN

    call = next(call for call in calls(spec, arguments, supply) if call.name == path)
    return _Resolver(call, values, run).task(platform_settings(platforms).get(call.executor_label, {}))


class _Resolver:
    """Resolves the inputs of one task, and notes what they need."""

    def __init__(self, call: Call, values: Mapping[str, str], run: str) -> None:
        self._call, self._values = call, values
        self._leaf = call.name.rpartition("/")[2]
        self._of_run = {
            "pipeline_job_uuid": run,
            "pipeline_job_name": run,
            "pipeline_job_resource_name": run,
            "pipeline_task_name": self._leaf,
        }
        self._declared = parameters(call.component)
        self._names = {self._own(name) for name in (*self._declared, *call.inputs) if name not in _NOT_INPUTS}
        self._lacking: dict[str, None] = {}  # names of the values that the input at hand lacks

    def task(self, settings: Node) -> PipelineTask:
        """Return the task; `settings` is what kfp.kubernetes set on it."""
        missing: dict[str, list[str]] = {}
        inputs: dict[str, Any] = {}
        for name, declared in self._declared.items():
            if name in _NOT_INPUTS or not (name in self._call.inputs or self._own(name) in self._values):
                value = None if name in _NOT_INPUTS else declared.get("defaultValue")
            else:
                value = self._input(name)
            if lacking := self._taken():
                missing[name] = lacking
            elif value is not None:
                inputs[name] = whole_numbers(value)
        config = self._config(settings)
        if lacking := self._taken():
            missing[SETTINGS] = lacking
        return PipelineTask(
            step=self._call.step,
            inputs=inputs,
            missing=missing,
            names=self._names,
            settings={} if lacking else partial_job(config),
            warnings=[
                f"the job does not get {what} of the task" for key, what in _NOT_TAKEN.items() if key in settings
            ],
        )

    def _own(self, name: str) -> str:
        return f"{self._leaf}.{short(name)}"

    def _taken(self) -> list[str]:
        lacking, self._lacking = list(self._lacking), {}
        return lacking

    def _input(self, name: str) -> Any:
        """Return the value of an input of the task; None if the pipeline's input that it comes from is left out."""
        key = self._own(name)
        value = self._call.inputs.get(name)
        if key in self._values:
            kind = self._declared.get(name, {}).get("parameterType") or (value.type if value else "")
            return decoded(key, self._values[key], kind)
        source = self._call.task["inputs"]["parameters"][name]
        constant = source.get("runtimeValue", {}).get("constant")
        if constant is not None:
            return self._filled(constant, key)
        assert value
        return self._known(value.constant, value.name or key, optional=bool(value.optional))

    def _known(self, constant: Any, name: str, *, optional: bool = False) -> Any:
        if "." in name:
            self._names.add(name)
        if constant is not UNKNOWN:
            return constant
        if not optional:
            self._lacking[name] = None
        return None

    def _filled(self, value: Any, name: str) -> Any:
        """Return a constant with its placeholders replaced by text, as the back end does."""
        match value:
            case str():
                value = INPUT.sub(lambda match: _text(self._input(match[1])), value)
                return _OF_RUN.sub(lambda match: self._known(self._of_run.get(match[1], UNKNOWN), name) or "", value)
            case Mapping():
                return {self._filled(key, name): self._filled(item, name) for key, item in value.items()}
            case list():
                return [self._filled(item, name) for item in value]
        return value

    def _config(self, settings: Node) -> dict[str, Any]:
        """Return the settings of the task as the driver passes them to its launcher."""
        settable = {key: self._call.container.get(key) for key in ("env", "resources")}
        container = self._filled(settable, self._own("task_config"))
        settings = self._with_inputs(settings)
        declared = container.get("resources") or {}
        resources: dict[str, dict[str, Any]] = {"limits": {}, "requests": {}}
        for kind, suffix in (("limits", "Limit"), ("requests", "Request")):
            for name, field in _RESOURCES.items():
                if amount := declared.get(f"{field}{suffix}"):
                    resources[kind][name] = amount
        accelerator = declared.get("accelerator") or {}
        if accelerator.get("resourceType") and accelerator.get("resourceCount"):
            resources["limits"][accelerator["resourceType"]] = accelerator["resourceCount"]
        return {
            **task_config(container, settings),
            "resources": resources,
            "nodeSelector": (settings.get("nodeSelector") or {}).get("labels") or {},
            "tolerations": settings.get("tolerations") or [],
        }

    def _with_inputs(self, value: Any) -> Any:
        """Return settings with constants in place of the inputs of the graph that they take."""
        match value:
            case {"componentInputParameter": str(name)} if len(value) == 1:
                source = self._call.graph.get(name)
                constant = source.constant if source else UNKNOWN
                known = self._known(constant, (source and source.name) or self._own(name))
                return {"runtimeValue": {"constant": known}}
            case Mapping():
                return {key: self._with_inputs(item) for key, item in value.items()}
            case list():
                return [self._with_inputs(item) for item in value]
        return value


def _text(value: Any) -> str:
    """Return a value within a text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(whole_numbers(value)).decode()


def pod_references(documents: Iterable[Mapping[str, Any]], parameters: Mapping[str, Any]) -> Iterator[Reference]:
    """Yield the objects that the pods of a compiled pipeline refer to by a constant or by an input of the pipeline.

    Args:
        documents: The pipeline, and its options for Kubernetes.
        parameters: The values of the pipeline's inputs, by name; inputs that are left out have their defaults.
    """
    pipeline, *_ = documents = list(documents)
    inputs = pipeline.get("root", {}).get("inputDefinitions", {}).get("parameters", {})
    defaults = {name: definition["defaultValue"] for name, definition in inputs.items() if "defaultValue" in definition}
    values = {**defaults, **parameters}
    for document in documents:
        kubernetes = (document.get("platforms") or {}).get("kubernetes") or {}
        for executor in ((kubernetes.get("deploymentSpec") or {}).get("executors") or {}).values():
            for field, name, resource in _MOUNTS:
                named = (_name(mount, name, values) for mount in executor.get(field) or [] if not mount.get("optional"))
                yield from (Reference(resource, object_name) for object_name in named if object_name)


def _name(mount: Mapping[str, Any], field: str, values: Mapping[str, Any]) -> str:
    """Return the name of the object of a mount; empty = it is an output of another task."""
    source = mount.get(f"{field}Parameter") or {}
    constant = (source.get("runtimeValue") or {}).get("constant") or mount.get(field) or mount.get("constant")
    parameter = str(source.get("componentInputParameter") or "").removeprefix("pipelinechannel--")
    return str(constant or values.get(parameter) or "")
