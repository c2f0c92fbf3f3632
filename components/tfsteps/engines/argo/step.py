"""The steps of tfsteps for Hera: container templates, and calls that create a task or a step."""

import contextvars
import functools
import inspect
from collections.abc import Mapping
from typing import Any

from hera.workflows import Container, Parameter, Step, Steps, Task, Workflow
from hera.workflows._context import _context
from hera.workflows.models import Arguments, LifecycleHook
from hera.workflows.models import Parameter as ModelParameter

from tfsteps.engines.argo.inputs import UNKNOWN, input_problems
from tfsteps.engines.argo.interface import BadValueError, Interface, interfaces
from tfsteps.engines.argo.template import container, exit_handler
from tfsteps.engines.code_input import CODE, with_packed_code
from tfsteps.spec import SpecError

_CALL = (
    "depends",
    "dependencies",
    "when",
    "with_items",
    "with_param",
    "with_sequence",
    "continue_on",
    "hooks",
    "on_exit",
)
"""Fields of Hera's tasks and steps that are not inputs; `depends` and `dependencies` are fields of tasks only."""


class ArgoStep:
    """A step of tfsteps, for Workflows that are written with Hera.

    Called within a `DAG`, `Steps` or `Steps.parallel()`, it creates a task or a step, and adds the template that this
    requires to the Workflow, once:

        with Workflow(generate_name="mnist-", entrypoint="main") as workflow, DAG(name="main"):
            fit = train("fit", image="ghcr.io/acme/mnist:1.4", workers=2)
            gate = evaluate_gate("gate", metrics=fit.get_parameter("metrics"), metric="accuracy", threshold=0.9)
            fit >> gate

    Inputs are those of the Kubeflow component of that name: given as Python values, as text, or as references to what
    Argo fills in, such as `{{inputs.parameters.lr}}` or Hera's own Parameters, also within lists and mappings. None and
    empty text count as left out. Everything that Hera's `Task` and `Step` take (`when`, `with_items`, `hooks`, ...) can
    be given as well.

    Attributes:
        interface: Its inputs and outputs.
    """

    def __init__(self, interface: Interface, settings: Mapping[str, Any] | None = None) -> None:
        """Keep the settings of the template, which is created when it is first used."""
        self.interface = interface
        self._settings = settings or {}
        self._equal_copy: Container | None = (
            None  # a Workflow's copy of the template, found to be equal: comparing takes time
        )
        self.__name__ = interface.name
        self.__doc__ = _doc(interface)
        self.__signature__ = _signature(interface)

    def using(self, **settings: Any) -> "ArgoStep":
        """Return the same step with another template.

        Args:
            **settings: `name` of the template, if the Workflow has the plain one too; `image` of the launcher;
                `artifacts=True` for logs and report as artifacts, which need an artifact repository; `retries` after
                lost pods and faults of the platform; `grace_period` in seconds; `env`, a list of variables that the
                launcher gets in addition; and every field of Hera's `Container`, such as `service_account_name`,
                `image_pull_policy` or `active_deadline_seconds`.
        """
        return ArgoStep(self.interface, {**self._settings, **settings})

    @functools.cached_property
    def template(self) -> Container:
        """The container template, for a Workflow's `templates`; it is not added to a Workflow."""
        # In a separate context: within `with DAG()`, Hera would add the template to that graph.
        template: Container = contextvars.Context().run(container, self.interface, **self._settings)
        return template

    def __call__(self, name: str = "", /, *, arguments: Mapping[str, Any] | None = None, **inputs: Any) -> Task | Step:
        """Create a task in a DAG, or a step in Steps.

        Args:
            name: Name of the task; empty = the input `name` if that is plain text, otherwise the template's name.
            arguments: Inputs, as Hera's own calls take them.
            **inputs: Inputs, and fields of Hera's `Task` or `Step`.

        Raises:
            SpecError: An input is unknown, missing or of another type.
            ValueError: The Workflow has another template of that name.
        """
        call = {key: inputs.pop(key) for key in _CALL if key in inputs}
        values = self.values({**(arguments or {}), **inputs})
        stem = values.get("name", "")
        name = name or (stem if stem and "{{" not in stem else "") or str(self.template.name)
        self._check_name()
        return self.template(name=name, arguments=values, **call)

    @functools.cached_property
    def exit_template(self) -> Steps:
        """The template that exit hooks refer to: it calls the step.

        After a Workflow's deadline, Argo fails the retries of an exit handler as if they were ordinary steps. It does
        not fail the steps that an exit handler calls.
        """
        handler: Steps = contextvars.Context().run(exit_handler, self.template)
        return handler

    def hook(self, **inputs: Any) -> LifecycleHook:
        """Return an exit hook that runs this step, and add its templates to the Workflow around this call."""
        if _context.pieces and isinstance(workflow := _context.pieces[0], Workflow):
            self.add_to(workflow)
        parameters = [ModelParameter(name=name, value=value) for name, value in self.values(inputs).items()]
        return LifecycleHook(
            template=self.exit_template.name, arguments=Arguments(parameters=parameters) if parameters else None
        )

    def on_exit(self, workflow: Workflow, **inputs: Any) -> None:
        """Run this step whenever `workflow` ends, also when it fails or is stopped; not when it is terminated.

        Raises:
            SpecError: An input is unknown, missing or of another type.
            ValueError: The Workflow has an exit handler, or another template of that name.
        """
        if workflow.on_exit or "exit" in (workflow.hooks or {}):
            raise ValueError(f"the Workflow has an exit handler; make {self.__name__} a step of that")
        self.add_to(workflow)
        workflow.hooks = {**(workflow.hooks or {}), "exit": self.hook(**inputs)}

    def add_to(self, workflow: Workflow) -> None:
        """Add the templates of an exit hook to a Workflow, once. ValueError if it has another template of that name."""
        if not self._known(workflow):
            workflow.templates.append(self.template)
        if self.exit_template.name not in [template.name for template in workflow.templates]:
            workflow.templates.append(self.exit_template)

    def values(self, inputs: Mapping[str, Any]) -> dict[str, str]:
        """Return inputs as text, as Argo passes them, without those that are left out.

        SpecError for wrong inputs, CodeError for code that cannot be packed.
        """
        texts, problems = {}, []
        known = {declared.name: declared for declared in self.interface.inputs}
        if CODE in known:
            inputs = with_packed_code(inputs)
        for name, value in inputs.items():
            plain = str(value) if isinstance(value, Parameter) else value
            if plain is None or plain == "":
                continue
            try:
                texts[name] = known[name].encode(plain) if name in known else UNKNOWN
            except BadValueError as error:
                problems.append(error.problem)
                texts[name] = UNKNOWN
        if problems := [*problems, *input_problems(self.interface, texts)]:
            raise SpecError(problems, self.__name__)
        return {name: texts[name] for name in known if name in texts}

    def _check_name(self) -> None:
        if _context.pieces and isinstance(workflow := _context.pieces[0], Workflow):
            self._known(workflow)

    def _known(self, workflow: Workflow) -> bool:
        """Tell whether a Workflow has the template."""
        for template in workflow.templates:
            if template.name == self.template.name:
                if template is not self._equal_copy and template != self.template:
                    raise ValueError(
                        f"the Workflow has another template {template.name!r}; name this one by using(name=)"
                    )
                self._equal_copy = template
                return True
        return False


def argo_step(name: str) -> ArgoStep:
    """Return the Argo step of a component."""
    return ArgoStep(interfaces()[name])


def _signature(interface: Interface) -> inspect.Signature:
    named = [inspect.Parameter("task_name", inspect.Parameter.POSITIONAL_ONLY, default="")]
    kinds = [
        inspect.Parameter(
            declared.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if declared.required else declared.default,
        )
        for declared in interface.inputs
    ]
    return inspect.Signature([*named, *kinds, inspect.Parameter("call", inspect.Parameter.VAR_KEYWORD)])


def _doc(interface: Interface) -> str:
    inputs = [f"    {declared.name}: {declared.description}" for declared in interface.inputs]
    outputs = [f"    {output.name}: {output.description}" for output in interface.outputs]
    return "\n".join([interface.description, "", "Args:", *inputs, "", "Outputs:", *outputs])


__all__ = ["ArgoStep", "argo_step"]
