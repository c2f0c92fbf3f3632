"""The template variables of a pipeline of cube-studio (`{{creator}}`), as references of an Argo Workflow. Pure."""

import re
from collections.abc import Mapping

from tfsteps.imports.fields import NotUnderstoodError

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
