"""Runs a pipeline of Kubeflow Pipelines on this machine, and runs one again."""

import pathlib
from collections.abc import Collection, Mapping
from typing import Any

from tfsteps.backends.errors import CommandError
from tfsteps.cli.compiled import Compiled, LintError, understood
from tfsteps.cli.submitters.submission import Submission, typed
from tfsteps.console.text import clean
from tfsteps.engines.kfp import lint
from tfsteps.masking import masked_job
from tfsteps.runs.pipeline_record import Submission as Recorded


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
    arguments = typed(submission.parameters, _inputs(submission.compiled))
    board = {"tensorboard": submission.tensorboard, "keep_tensorboard": submission.keep_tensorboard}
    return _run(submission.compiled, arguments, submission.installed, submission.folder, **board)


def rerun(run: str, parameters: Mapping[str, str], run_id: str) -> int:
    """Run the pipeline of an earlier run again, as it was compiled then, and return the exit code.

    Args:
        run: Id of the run.
        parameters: Inputs that change, by name, as text.
        run_id: Id of the new run; empty = a new one.

    Raises:
        CommandError: The pipeline was not recorded, its folder is gone, or an input is wrong.
        SpecError: The pipeline would fail with these arguments.
    """
    recorded = Recorded.read(run)
    if recorded is None:
        why = "its pipeline is not recorded, for an older version of tfsteps ran it"
        raise CommandError(f"run {run}: {why}; submit it again, or rerun one job by --task NAME")
    if not (folder := pathlib.Path(recorded.folder)).is_dir():
        raise CommandError(f"run {run}: its working folder {recorded.folder!r} does not exist any more; restore it")
    compiled = understood(f"run {run}", recorded.pipeline)
    changed = typed(parameters, _inputs(compiled), recorded.arguments)
    before, after = masked_job(recorded.arguments), masked_job(changed)
    changes = [f"{name} {before.get(name, 'default')} -> {after[name]}" for name in changed]
    print(clean(f"again: run {run}, {', '.join(changes) or 'without changes'}"), flush=True)
    return _run(compiled, {**recorded.arguments, **changed}, recorded.images, folder, run_id=run_id)


def _inputs(compiled: Compiled) -> Mapping[str, Any]:
    inputs: Mapping[str, Any] = compiled.documents[0].get("root", {}).get("inputDefinitions", {}).get("parameters", {})
    return inputs


def _run(
    compiled: Compiled, arguments: Mapping[str, Any], images: Collection[str], folder: pathlib.Path, **options: Any
) -> int:
    from kfp import components  # noqa: PLC0415

    from tfsteps.engines.local.run_here import run_here  # noqa: PLC0415

    if problems := lint.local_problems(compiled.text, arguments):
        raise LintError(compiled.source, problems)
    pipeline = compiled.pipeline or components.load_component_from_text(compiled.text)
    return run_here(pipeline, arguments, images=images, cwd=folder, **options)
