"""Submits to Kubeflow Pipelines with its own client: a run, or a recurring run."""

import contextlib
import io
import os
import pathlib
import tempfile
import time
import warnings
from collections.abc import Iterator
from typing import Any

from tfsteps.console.errors import CommandError
from tfsteps.console.messages import warn
from tfsteps.console.text import local_time
from tfsteps.engines.compiled import LintError
from tfsteps.engines.kfp import lint
from tfsteps.engines.kfp.inputs import definitions, typed
from tfsteps.engines.kfp.pod_references import NAMESPACE, pod_references
from tfsteps.engines.missing_objects import missing
from tfsteps.engines.submission import Submission, print_yaml, show_command
from tfsteps.kube.access import find
from tfsteps.kube.client import Api
from tfsteps.kube.credentials import AccessError
from tfsteps.kube.errors import ApiError
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.schedule import kubeflow
from tfsteps.spec import SpecError
from tfsteps.systems.kubernetes.preflight.references import ACCOUNTS, Reference
from tfsteps.text import timezones

_LOOK_SECONDS = 5.0
_MOST_FAILURES = 120  # ten minutes
_ENDED = {
    "SUCCEEDED": ExitCode.SUCCEEDED,
    "SKIPPED": ExitCode.SUCCEEDED,
    "FAILED": ExitCode.FAILED,
    "CANCELED": ExitCode.CANCELLED,
}


def submit(submission: Submission) -> int:
    """Create the run or the recurring run and return the exit code.

    Raises:
        SpecError: The schedule cannot be expressed, or the run would fail with these arguments.
        CommandError: Anything else.
    """
    now = time.time()
    arguments = _arguments(submission, now)
    if problems := lint.problems(submission.compiled.text, arguments["params"]):
        raise LintError(submission.compiled.source, problems)
    if submission.dry_run:
        print_yaml([arguments])
        return ExitCode.SUCCEEDED
    for warning in _missing(submission, arguments["params"]):
        warn(warning)
    with _client(submission) as client:
        run, experiment, printed = _create(client, submission, arguments)
        print(printed, end="")
        if submission.when:
            print(f"recurring run {run.display_name} created: {run.recurring_run_id}")
            print(f"Watch it: {_page(client)}/#/recurringrun/details/{run.recurring_run_id}")
            return ExitCode.SUCCEEDED
        print(f"run {run.display_name} created: {run.run_id}")
        namespace = submission.namespace or experiment.namespace or NAMESPACE
        print(f"Its jobs: {show_command(run.run_id, submission.context, namespace)}")
        return _wait(client, run.run_id) if submission.wait else ExitCode.SUCCEEDED


def _missing(submission: Submission, arguments: dict[str, Any]) -> list[str]:
    """Return warnings about missing objects; empty if the kubeconfig may be for another cluster than the API."""
    if (submission.host or os.environ.get("KF_PIPELINES_ENDPOINT")) and not submission.context:
        return []
    try:
        api = Api(find(submission.context), patience=0)
    except AccessError:
        return []
    named = [*pod_references(submission.compiled.documents, arguments)]
    if submission.service_account:
        named.append(Reference(ACCOUNTS, submission.service_account))
    messages: list[str] = []
    with contextlib.suppress(ApiError):  # Kubeflow Pipelines may be reachable where Kubernetes is not
        messages.extend(missing(api, submission.namespace or NAMESPACE, named))
    return messages


def _create(client: Any, submission: Submission, arguments: dict[str, Any]) -> tuple[Any, Any, str]:
    """Create the run or the recurring run; return it, its experiment, and the output of the client.

    The client prints the experiment's address before the run is created, and standard output may be closed.
    """
    create = client.create_recurring_run if submission.when else client.run_pipeline
    with _package(submission) as package, contextlib.redirect_stdout(io.StringIO()) as printed:
        experiment = client.create_experiment(arguments.pop("experiment"), namespace=submission.namespace or None)
        run = create(experiment.experiment_id, pipeline_package_path=package, **arguments)
    return run, experiment, printed.getvalue()


def _arguments(submission: Submission, now: float) -> dict[str, Any]:
    """Return the arguments of the client, without the pipeline."""
    arguments = {
        "experiment": submission.experiment,
        "job_name": submission.name or f"{submission.compiled.name} {local_time(now)}",
        "params": typed(submission.parameters, definitions(submission.compiled)),
        **({"service_account": submission.service_account} if submission.service_account else {}),
    }
    when = submission.when
    return arguments | (kubeflow.recurring_run(when, now, submission.server_timezone) if when else {})


def fire_times(submission: Submission, now: float) -> Iterator[int]:
    """Yield the start times of the runs of a schedule.

    Raises:
        SpecError: Kubeflow Pipelines cannot express the schedule.
        CommandError: The time zone of its server is unknown.
    """
    when, server_timezone = submission.when, submission.server_timezone
    assert when is not None
    if fix := timezones.fix(server_timezone):
        raise CommandError(f"--server-timezone {server_timezone!r} {timezones.WRONG}. {fix}")
    if problems := kubeflow.problems(when, now, server_timezone):
        raise SpecError(problems, "schedule")
    if when.concurrency == "allow":
        warn(f"Kubeflow Pipelines runs at most {kubeflow.MOST_AT_ONCE} runs of a schedule at once")
    return kubeflow.fires(when, now, server_timezone)


@contextlib.contextmanager
def _package(submission: Submission) -> Iterator[str]:
    """Yield the path of a temporary file with the compiled pipeline, because the client requires a file."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "pipeline.yaml")
        file.write_text(submission.compiled.text, encoding="utf-8")
        yield str(file)


@contextlib.contextmanager
def _client(submission: Submission) -> Iterator[Any]:
    """Yield the client; raise CommandError if the server refuses a request."""
    try:
        import kfp  # noqa: PLC0415  takes half a second, and is not always installed
        import kfp_server_api  # type: ignore[import-untyped]  # noqa: PLC0415
        import urllib3.exceptions  # noqa: PLC0415
    except ImportError as error:
        raise CommandError(f"Kubeflow's client is not installed ({error}); install tfsteps[kfp]") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # says that the client only supports version 2
            client = kfp.Client(host=submission.host or None, kube_context=submission.context or None)
        yield client
    except kfp_server_api.ApiException as error:
        code = ExitCode.USAGE if error.status and 400 <= error.status < 500 else ExitCode.PLATFORM
        raise CommandError(f"Kubeflow Pipelines refused: {error.status} {error.body or error.reason}", code) from error
    except (urllib3.exceptions.HTTPError, TimeoutError) as error:
        message = f"Kubeflow Pipelines cannot be reached: {error}; give --host, or set KF_PIPELINES_ENDPOINT"
        raise CommandError(message, ExitCode.PLATFORM) from error
    except ValueError as error:  # from the checks of the client
        raise CommandError(f"Kubeflow's client refused: {error}") from error


def _wait(client: Any, run_id: str) -> ExitCode:
    """Wait for a run's end; the client's own function never returns for a cancelled run."""
    failures = 0
    while (state := _state(client, run_id)) not in _ENDED:
        failures = 0 if state else failures + 1
        if failures > _MOST_FAILURES:
            raise CommandError(
                f"run {run_id} continues, but Kubeflow Pipelines does not answer; check its pages", ExitCode.PLATFORM
            )
        time.sleep(_LOOK_SECONDS)
    print(f"run {run_id} {state}")
    return _ENDED[state]


def _state(client: Any, run_id: str) -> str:
    """Return the state of a run; empty if the server does not answer."""
    import kfp_server_api  # noqa: PLC0415
    import urllib3.exceptions  # noqa: PLC0415

    try:
        return str(client.get_run(run_id).state or "PENDING")
    except urllib3.exceptions.HTTPError:
        return ""
    except kfp_server_api.ApiException as error:
        if error.status and error.status < 500:
            raise
        return ""


def _page(client: Any) -> str:
    return str(client._get_url_prefix())  # noqa: SLF001  the client has no public function for this
