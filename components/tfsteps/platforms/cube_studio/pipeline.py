"""Reads a pipeline that cube-studio exported, as an Argo Workflow. Pure.

The form is that of its example pipelines (`myapp/init/init-pipeline.json` of tencentmusic/cube-studio v2026.03.01), or
of the rows of its tables: `pipeline` with `dag_json`, and `tasks`. `dag_json` and `args` may be JSON text, as there.
"""

import json
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import yaml

from tfsteps import typed_json
from tfsteps.engines.argo.launchers import NAME as TEMPLATES
from tfsteps.imports.read import ImportedPipeline
from tfsteps.json_errors import NOT_READABLE
from tfsteps.platforms.cube_studio.inputs import job_fields, parse
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import SpecError, from_plain
from tfsteps.spec.problems import shown
from tfsteps.spec.short_forms import expand_volume
from tfsteps.spec.step_inputs import merged
from tfsteps.systems.kubernetes.render.pod_template import pod_template
from tfsteps.systems.manifest.fields import Fields, NotUnderstoodError

_TRAINS = ("tfjob", "tfsteps")
_CUSTOM = "自定义镜像"
_RUN_TTL = 10_800
_USER = "creator-of-the-run"  # stands for a reference to a parameter while volumes are checked
_TRUE = (True, "true", "True", 1, "1")
_DEFAULT = {"resource_cpu": "2", "resource_memory": "2G", "resource_gpu": "0"}
_REASONS: Mapping[str, str] = {
    "label": "a task of a Workflow has only a name",
    "expand": "it is the layout of the canvas",
    "monitoring": "it is measured by cube-studio",
    "outputs": "write it as outputs of the template",
    "node_selector": "cube-studio itself ignores it; write `kinds` of the platform settings",
    "resource_rdma": "write it into `pod` of the job, or into the template",
    "project": "the namespace, nodes and pull secrets of a project are platform settings",
    "parameter": "mark a demo at submission: `tfsteps submit --demo --picture URL`",
    "schedule_type": "a schedule is a file of its own: `tfsteps submit FILE --schedule schedule.yaml`",
    "cron_time": "write it as `cron` of a schedule file",
    "alert_status": "notifications are `notify` of a job",
    "alert_user": "notifications are `notify` of a job",
    "namespace": "give it at submission: --namespace",
    **dict.fromkeys(
        ("depends_on_past", "max_active_runs", "expired_limit", "cronjob_start_time"), "it belongs to the schedule"
    ),
}
_OF_THE_SERVER = re.compile(
    r"(pipeline_|task_|run_|job_template_|project_|version_)?id|pipeline_file|pipeline_argo_id|(created|changed)_\w+"
)
_EXPRESSION = re.compile(r"\{\{\s*(.*?)\s*\}\}", re.DOTALL)
_STRFTIME = re.compile(r"""datetime\.datetime\.(?:now|today)\(\)\.strftime\((['"])(.*?)\1\)""")
_UNIQUE = re.compile(r"uuid\.uuid[14]\(\)(?:\.hex)?")
_TIME_LETTERS = "YymdHMS"  # each is also a variable of Argo
_DESCRIPTIONS = {
    "creator": "User who owns the pipeline; names the personal folders.",
    "runner": "User who starts the run.",
    "cluster_name": "Name of the cluster.",
    "pipeline_id": "Number of the pipeline in cube-studio.",
}


def read_pipelines(document: Any) -> list[ImportedPipeline]:
    """Return the pipelines of a document; empty = it is none of cube-studio. NotUnderstoodError for a wrong one."""
    if not isinstance(document, dict):
        return []
    several = [document] if _is_pipeline(document) else list(document.values())
    return [_PipelineReader(value).read() for value in several] if all(map(_is_pipeline, several)) else []


def _is_pipeline(value: Any) -> bool:
    """Tell whether a value has a pipeline and its tasks."""
    if not isinstance(value, dict) or "tasks" not in value:
        return False
    return isinstance(value.get("pipeline"), dict) if "pipeline" in value else "dag_json" in value


class _PipelineReader:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self._pipeline = Fields(document.get("pipeline", {**document, "tasks": None}))
        self._name = _kubernetes_name(self._pipeline.take(str, "name") or "")
        if not self._name:
            raise NotUnderstoodError("pipeline.name is missing")
        self._tasks: dict[str, Fields] = {}
        for task in Fields(document).mappings("tasks"):
            name = _kubernetes_name(task.take(str, "name") or "")
            if name in self._tasks:
                raise NotUnderstoodError(
                    f"{task.where('name')} is {name} in a Workflow, as another task is; rename one"
                )
            self._tasks[name] = task
        self._notes: list[str] = []
        env = str(self._pipeline.take(object, "global_env") or "")
        self._global_env = dict(line.strip().split("=", 1) for line in env.splitlines() if "=" in line)
        creator = self._pipeline.take(object, "created_by")
        known = {"pipeline_name": self._name, "pipeline_id": self._pipeline.take(object, "id"), "creator": creator}
        self._variables = Variables(
            {name: str(value) for name, value in known.items() if isinstance(value, str | int)}, self._global_env
        )
        self._templates: list[dict[str, Any]] = []

    def read(self) -> ImportedPipeline:
        graph = _json(self._pipeline.take(object, "dag_json"), "dag_json")
        upstream = {
            _kubernetes_name(name): [_kubernetes_name(str(other)) for other in _upstream(name, part)]
            for name, part in graph.items()
        }
        dag = [self._node(name, others, upstream) for name, others in upstream.items()]
        for name in self._tasks.keys() - upstream.keys():
            self._notes.append(
                f"task {name} is not on the canvas (dag_json), and cube-studio does not run it: left out"
            )
        describe = self._pipeline.take(object, "describe")
        parallelism = _whole(self._pipeline, "pipeline", "parallelism")
        self._report(self._pipeline, "pipeline")
        parameters = [
            {"name": name, **({} if value is None else {"value": value}), **({"description": text} if text else {})}
            for name, (value, text) in self._variables.parameters.items()
        ]
        spec = {
            "entrypoint": "main",
            **({"arguments": {"parameters": parameters}} if parameters else {}),
            **({"parallelism": parallelism} if parallelism else {}),
            "ttlStrategy": {"secondsAfterCompletion": _RUN_TTL},
            "templates": [{"name": "main", "dag": {"tasks": dag}}, *self._templates],
        }
        notes = {"workflows.argoproj.io/description": str(describe)} if describe else {}
        metadata = {"generateName": f"{self._name}-", **({"annotations": notes} if notes else {})}
        manifest = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": metadata, "spec": spec}
        text = yaml.safe_dump(manifest, sort_keys=False, allow_unicode=True, width=120)
        source = f"pipeline {self._name} of cube-studio"
        text = f"# {source}, imported by tfsteps\n{text}"
        return ImportedPipeline(self._name, source, "argo", text, [*self._notes, *self._variables.notes])

    def _node(self, name: str, others: list[str], graph: Mapping[str, Any]) -> dict[str, Any]:
        """Return the node of a task, and add the template that it needs."""
        if name not in self._tasks:
            raise NotUnderstoodError(f"dag_json has the task {name}, and `tasks` does not; export the whole pipeline")
        unknown = [other for other in others if other not in graph]
        self._notes += [
            f"task {name}: its upstream {other} is no task; left out, as by cube-studio" for other in unknown
        ]
        task = self._tasks[name]
        node: dict[str, Any] = {"name": name}
        if needed := [other for other in others if other in graph]:
            node["dependencies"] = needed
        if task.take(object, "skip") in _TRUE:
            node["when"] = "false"
        template = task.take(object, "job_templete") or task.take(object, "job_template") or ""
        kind = str(template.get("name", "") if isinstance(template, dict) else template)
        try:
            node |= self._train(name, task) if kind in _TRAINS else self._container(name, task, kind)
        except SpecError as error:
            raise NotUnderstoodError(f"task {name}: {'; '.join(map(str, error.problems))}") from error
        self._report(task, f"task {name}")
        return node

    def _train(self, name: str, task: Fields) -> dict[str, Any]:
        """Return the call of the `train` step for a task that trains with TensorFlow."""
        fields, problems = parse(_command_line(self._arguments(name, task)))
        if problems:
            raise SpecError(problems, name)
        job = {"name": name[:40].rstrip("-"), **self._pod(name, task)}
        if retry := _whole(task, f"task {name}", "retry"):
            job |= {"restart": "on_failure", "backoff_limit": retry}
            self._notes.append(f"task {name}: retry = {retry} restarts the whole job, by the launcher")
        if timeout := _whole(task, f"task {name}", "timeout"):
            job["deadlines"] = {"total": timeout}
        if folder := fields.pop("working_dir", ""):
            job["working_dir"] = folder
        job = merged(job, fields.pop("spec", {}))
        values = {**fields, "spec": job}
        parameters = [
            {"name": key, "value": value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}
            for key, value in values.items()
        ]
        for parameter in parameters:
            parameter["value"] = self._with_creator(parameter["value"])
        return {"templateRef": {"name": TEMPLATES, "template": "train"}, "arguments": {"parameters": parameters}}

    def _container(self, name: str, task: Fields, kind: str) -> dict[str, Any]:
        """Add the template of any other task: a container, as cube-studio makes it."""
        values = self._arguments(name, task)
        image, workdir = (str(values.pop(key, None) or "") for key in ("images", "workdir"))
        command_text = str(task.take(object, "command") or "")
        folder = str(task.take(object, "working_dir") or workdir)
        if kind == _CUSTOM:
            folder = workdir
            command, args = ["bash", "-c", str(values.pop("command", ""))], list[str]()
        elif command_text:
            command, args = [*" && ".join(command_text.split("\n")).split()], _command_line(values)
        else:
            what = f"The start command of cube-studio's job template {kind}, such as python3 launcher.py."
            start = self._variables.parameter(f"command-{_kubernetes_name(kind)}", description=what)
            command, args = ["sh", "-c", f'{start} "$@"', "sh"], _command_line(values)
        if not image:
            what = f"The image of cube-studio's job template {kind}, which is not in the exported file."
            image = self._variables.parameter(f"image-{_kubernetes_name(kind)}", description=what)
        rendered = self._rendered(fields := self._pod(name, task))
        for field in ("cpu", "memory"):  # as the task has them, not in bytes
            low, _, high = fields["resources"][field].partition("~")
            rendered["container"]["resources"]["requests"][field] = low
            rendered["container"]["resources"]["limits"][field] = high or low
        container = {"image": image, "command": command, "args": args, "workingDir": folder, "env": self._env(name)}
        template = {
            "name": name,
            **{key: rendered[key] for key in ("volumes", "nodeSelector") if rendered.get(key)},
            "container": {
                **{key: value for key, value in container.items() if value},
                **{
                    key: rendered["container"][key]
                    for key in ("resources", "volumeMounts")
                    if key in rendered["container"]
                },
            },
        }
        if retry := _whole(task, f"task {name}", "retry"):
            template["retryStrategy"] = {"limit": retry}
        if timeout := _whole(task, f"task {name}", "timeout"):
            template["activeDeadlineSeconds"] = timeout
        self._templates.append(json.loads(self._with_creator(json.dumps(template))))
        return {"template": name}

    def _arguments(self, name: str, task: Fields) -> dict[str, Any]:
        """Return a task's arguments with references of Argo."""
        where = f"task {name}: args"
        values = json.loads(self._variables.translate(json.dumps(_json(task.take(object, "args"), where)), where))
        assert isinstance(values, dict)
        return values

    def _pod(self, name: str, task: Fields) -> dict[str, Any]:
        """Return resources and volumes of a task, as fields of a job file in its short forms."""
        text = {key: str(task.take(object, key) or default) for key, default in _DEFAULT.items()}
        volumes = self._variables.translate(str(task.take(object, "volume_mount") or ""), f"task {name}: volume_mount")
        read = {f"KFJ_TASK_{key.upper()}": value for key, value in text.items()} | {"KFJ_TASK_VOLUME_MOUNT": volumes}
        try:
            fields = job_fields(read)
        except SpecError as error:
            named = [
                msgspec.structs.replace(problem, path=(str(problem.path[0]).removeprefix("KFJ_TASK_").lower(),))
                for problem in error.problems
            ]
            raise SpecError(named, name) from error
        resources = {key: value for key, value in fields["resources"].items() if key != "gpu"}
        if (gpu := text["resource_gpu"]) != "0":
            resources["gpu"] = int(gpu) if re.fullmatch("[0-9]{1,9}", gpu) else gpu
        mounts = [self._volume(volume) for volume in fields.get("volumes", [])]
        return {"resources": resources, **({"volumes": mounts} if mounts else {})}

    def _volume(self, text: str) -> Any:
        """Return a volume; that of a personal folder with the creator's name."""
        fields, _ = expand_volume(text)
        if not fields.pop("personal", False):
            return text
        self._variables.parameter("creator")
        return {**fields, "mount": f"{fields['mount'].rstrip('/')}/{_USER}", "sub_path": _USER}

    def _rendered(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the pod of a container with these resources and volumes."""
        job = from_plain({"name": "a", "image": "a", "roles": {"worker": {}}, **fields}, "task")
        role, paths = job.resolved_roles()["worker"], OutputPaths.below("/", job, pathlib.Path())
        identity = Identity(run="r", task="t")
        spec = pod_template(job, "worker", role, identity, paths, gpu_label="gpu-type", more_env=[])["spec"]
        return {**spec, "container": spec["containers"][0]}

    def _env(self, name: str) -> list[dict[str, str]]:
        """Return the variables that cube-studio gives each task, as far as a Workflow has their values."""
        values = {
            "KFJ_RUN_ID": "{{workflow.uid}}",
            "KFJ_PIPELINE_NAME": self._name,
            "KFJ_TASK_NAME": name,
            "KFJ_NAMESPACE": "{{workflow.namespace}}",
            **(
                {"KFJ_CREATOR": self._variables.parameter("creator")} if "creator" in self._variables.parameters else {}
            ),
            **{key: self._variables.translate(f"{{{{{key}}}}}", "global_env") for key in self._global_env},
        }
        return [{"name": key, "value": value} for key, value in values.items()]

    def _with_creator(self, text: str) -> str:
        return text.replace(_USER, "{{workflow.parameters.creator}}")

    def _report(self, fields: Fields, where: str) -> None:
        """Add a note for each field with a value that nothing has taken."""
        left: dict[str, list[str]] = {}
        for path, value in fields.left():
            name, *rest = path[2:] if path[0] == "tasks" else path
            if not _OF_THE_SERVER.fullmatch(str(name)) and value not in ("", "{}", "[]", 0, "0", False):
                left.setdefault(str(name), []).append(shown("..." if rest else value))
        for name, values in left.items():
            self._notes.append(f"{where}: {name} = {values[0]}: {_REASONS.get(name, 'a Workflow has no field for it')}")


def _upstream(name: str, part: Any) -> list[Any]:
    """Return the names of a task's upstream tasks in `dag_json`; empty = it has none."""
    upstream = (part.get("upstream") or []) if isinstance(part, dict) else None
    if not isinstance(upstream, list):
        raise NotUnderstoodError(f'dag_json: {name} is {shown(part)}, expected {{"upstream": [...]}}')
    return upstream


def _command_line(values: Mapping[str, Any]) -> list[str]:
    """Return arguments as cube-studio passes them: a flag for true, JSON for mappings and lists, nothing for empty."""

    def words() -> Iterator[str]:
        for name, value in values.items():
            if value is True:
                yield name
            elif value:
                yield name
                yield json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)

    return list(words())


def _json(value: object, where: str) -> dict[str, Any]:
    """Return a mapping that may be JSON text; empty = missing."""
    if isinstance(value, str):
        try:
            value = typed_json.decode(value or "{}", Any)
        except NOT_READABLE as error:
            raise NotUnderstoodError(f"{where} is no JSON: {error}") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise NotUnderstoodError(f"{where} is {shown(value)}, expected a mapping")
    return value


def _whole(fields: Fields, where: str, field: str) -> int:
    """Take a whole number that may be text; 0 = missing. NotUnderstoodError if it is none."""
    text = str(fields.take(object, field) or 0).strip()
    if not re.fullmatch("[0-9]{1,9}", text):
        raise NotUnderstoodError(f"{where}: {field} is {shown(text)}, expected a whole number from 0 to 999999999")
    return int(text)


def _kubernetes_name(name: str) -> str:
    """Return a name as cube-studio writes it into Workflows."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:54].strip("-")


class Variables:
    """Translates texts of a pipeline, and collects the parameters that the Workflow then needs.

    Attributes:
        parameters: Of the Workflow: by name the value, None = to be given at submission, and a description.
        notes: Sentences about what means something else in a Workflow.
    """

    def __init__(self, known: Mapping[str, str], global_env: Mapping[str, str]) -> None:
        """Translate nothing yet; `known` has the values of variables that the file contains."""
        self._known = known
        self._global_env = global_env
        self.parameters: dict[str, tuple[str | None, str]] = {}
        self.notes: list[str] = []

    def translate(self, text: str, where: str) -> str:
        """Return a text of a task with references of Argo; `where` is its place, for messages.

        Raises:
            NotUnderstoodError: It has a statement of the template language, such as `{% if %}`.
        """
        if "{%" in text:
            raise NotUnderstoodError(
                f"{where} has a statement {{% ... %}}, which no Workflow can run; replace it first"
            )
        return _EXPRESSION.sub(lambda match: self._reference(match[1], where), text)

    def parameter(self, name: str, value: str | None = None, description: str = "") -> str:
        """Return the reference to a parameter of the Workflow, which is added; `value` None = a known one, or none."""
        value = self._known.get(name) if value is None else value
        self.parameters[name] = (value, description or _DESCRIPTIONS.get(name, ""))
        return f"{{{{workflow.parameters.{name}}}}}"

    def _reference(self, expression: str, where: str) -> str:
        if expression in self._global_env:
            value = self._global_env[expression]
            return self.translate(value, where) if "{{" in value else self.parameter(expression, value)
        if expression in ("pipeline_name", "pipeline_id") and expression in self._known:
            return self._known[expression]
        if expression in _DESCRIPTIONS:
            return self.parameter(expression)
        if _UNIQUE.fullmatch(expression):
            self._note(f"{{{{{expression}}}}}: the Workflow's uid, the same everywhere in a run")
            return "{{workflow.uid}}"
        times = _STRFTIME.fullmatch(expression)
        template = "%Y-%m-%d %H:%M:%S" if expression == "execution_date" else times[2] if times else ""
        if template and set(re.findall(r"%(.)", template)) <= set(_TIME_LETTERS):
            self._note(f"{{{{{expression}}}}}: the time at which the Workflow is created, in UTC")
            return re.sub(r"%(.)", r"{{workflow.creationTimestamp.\1}}", template)
        name = f"value-{len(self.parameters) + 1}"
        self._note(f"{where}: {{{{{expression}}}}} has no counterpart; give its value at submission: -p {name}=...")
        return self.parameter(name, description=f"Value of {expression} in cube-studio.")

    def _note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)
