"""This machine, as an engine: it runs pipelines of Kubeflow Pipelines, each step a process."""

from tfsteps.engines.authoring import Authoring
from tfsteps.engines.plugin import EnginePlugin, constant, deferred


class LocalAuthoring(Authoring):
    """Checks of pipelines of Kubeflow Pipelines that run on this machine: only local failures are problems."""

    macro_fix = "a local run does not replace it. Write the value"

    def lint_messages(self, text: str) -> list[str]:
        """Return what fails on this machine."""
        from tfsteps.engines.kfp import lint  # noqa: PLC0415  one engine is enough

        return lint.local_lint_messages(text)


PLUGIN = EnginePlugin(
    name="local",
    title="this machine",
    authoring=LocalAuthoring,
    submit=deferred("tfsteps.engines.local.submit:submit"),
    submit_options=constant("tfsteps.engines.local.submit_options:LocalSubmitOptions"),
    rerun=deferred("tfsteps.engines.local.submit:rerun"),
    runs=["kfp"],
    on_cluster=False,
)
