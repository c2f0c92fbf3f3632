"""Runs a pipeline of Kubeflow Pipelines on this machine, and runs one again."""

import pathlib
from collections.abc import Collection, Mapping
from typing import Any

from tfsteps.console.errors import CommandError
from tfsteps.console.text import clean
from tfsteps.engines.authoring import Compiled, LintError
from tfsteps.engines.kfp import lint
from tfsteps.engines.kfp.inputs import definitions, typed
from tfsteps.engines.local.submit_options import LocalSubmitOptions
from tfsteps.engines.submission import Rerun, Submission
from tfsteps.masking import masked_job


def submit(submission: Submission) -> int:
    """Run the pipeline to its end and return the exit code.

    Raises:
        CommandError: The options do not apply to local runs.
        SpecError: The pipeline would fail with these arguments.
    """
    if submission.dry_run:
        raise CommandError("--dry-run does not apply to a local run; `tfsteps compile` shows the pipeline")
    of_clusters = {
        "--name": submission.name,
        "--context": submission.context,
        "--namespace": submission.namespace,
        "--service-account": submission.service_account,
    }
    if refused := [option for option, value in of_clusters.items() if value]:
        raise CommandError(f"{refused[0]} does not apply to a local run; leave it out")
    if submission.demo:
        raise CommandError(
            "--demo does not apply to a pipeline of this machine; `tfsteps run JOB --demo` marks one job"
        )
    arguments = typed(submission.parameters, definitions(submission.compiled))
    options: LocalSubmitOptions = submission.options
    tensorboard_options = {"tensorboard": options.tensorboard, "keep_tensorboard": options.keep_tensorboard}
    return _run(submission.compiled, arguments, options.installed, submission.folder, **tensorboard_options)


def rerun(asked: Rerun) -> int:
    """Run the pipeline of an earlier run again, as it was compiled then, and return the exit code.

    Raises:
        CommandError: An input is wrong.
        SpecError: The pipeline would fail with these arguments.
    """
    recorded, compiled = asked.recorded, asked.compiled
    changed = typed(asked.parameters, definitions(compiled), recorded.arguments)
    before, after = masked_job(recorded.arguments), masked_job(changed)
    changes = [f"{name} {before.get(name, 'default')} -> {after[name]}" for name in changed]
    print(clean(f"again: run {asked.run}, {', '.join(changes) or 'without changes'}"), flush=True)
    folder = pathlib.Path(recorded.folder)
    return _run(compiled, {**recorded.arguments, **changed}, recorded.images, folder, run_id=asked.run_id)


def _run(
    compiled: Compiled, arguments: Mapping[str, Any], images: Collection[str], folder: pathlib.Path, **options: Any
) -> int:
    from kfp import components  # noqa: PLC0415

    from tfsteps.engines.local.run_here import run_here  # noqa: PLC0415

    if problems := lint.local_lint_messages(compiled.text, arguments):
        raise LintError(compiled.source, problems)
    pipeline = compiled.pipeline or components.load_component_from_text(compiled.text)
    return run_here(pipeline, arguments, images=images, cwd=folder, **options)
