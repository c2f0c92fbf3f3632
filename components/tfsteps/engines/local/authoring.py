"""Checks of pipelines of Kubeflow Pipelines that run on this machine: only local failures are problems."""

from tfsteps.engines.authoring import Authoring


class LocalAuthoring(Authoring):
    """This machine."""

    macro_fix = "a local run does not replace it. Write the value"

    def lint_messages(self, text: str) -> list[str]:
        """Return what fails on this machine."""
        from tfsteps.engines.kfp import lint  # noqa: PLC0415  one engine is enough

        return lint.local_problems(text)


AUTHORING = LocalAuthoring()
