"""Runs a pipeline of Kubeflow Pipelines on this machine."""

from tfsteps.cli.compiled import LintError
from tfsteps.cli.errors import CommandError
from tfsteps.cli.submitters.submission import Submission, typed
from tfsteps.engines.kfp import lint


def submit(submission: Submission) -> int:
    """Run the pipeline to its end and return the exit code.

    Raises:
        CommandError: The options do not apply to local runs.
        SpecError: The pipeline would fail with these arguments.
    """
    if submission.when:
        raise CommandError(
            "local runs cannot be scheduled; leave --engine local out, or use cron(8) and `tfsteps submit`"
        )
    if submission.dry_run:
        raise CommandError("--dry-run does not apply to a local run; `tfsteps compile` shows the pipeline")
    from kfp import components  # noqa: PLC0415

    from tfsteps.engines.local.run_here import run_here  # noqa: PLC0415

    compiled = submission.compiled
    definitions = compiled.documents[0].get("root", {}).get("inputDefinitions", {})
    arguments = typed(submission.parameters, definitions.get("parameters", {}))
    if problems := lint.local_problems(compiled.text, arguments):
        raise LintError(compiled.source, problems)
    pipeline = compiled.pipeline or components.load_component_from_text(compiled.text)
    return run_here(pipeline, arguments, images=submission.installed, cwd=submission.folder)
