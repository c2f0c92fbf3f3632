"""Submits to Kubeflow Pipelines, by its own client: a run, or a recurring run."""

import contextlib
import pathlib
import tempfile
import time
import warnings
import zoneinfo
from collections.abc import Iterator
from typing import Any

from tfsteps.cli.errors import CommandError, warn
from tfsteps.cli.submission import Submission, print_yaml, typed
from tfsteps.cli.text import local_time
from tfsteps.cli.when import print_fires
from tfsteps.exits import Exit
from tfsteps.schedule import Schedule, kubeflow
from tfsteps.spec import SpecError

_LOOK_SECONDS = 5.0
_MOST_FAILURES = 120  # ten minutes
_ENDED = {
    "SUCCEEDED": Exit.SUCCEEDED,
    "SKIPPED": Exit.SUCCEEDED,
    "FAILED": Exit.FAILED,
    "CANCELED": Exit.CANCELLED,
}


def submit(submission: Submission) -> int:
    """Create what was asked for and return the exit code.

    Raises:
        SpecError: The schedule cannot be expressed.
        CommandError: Anything else.
    """
    now = time.time()
    arguments = _arguments(submission, now)
    if submission.dry_run:
        print_yaml([arguments])
        return Exit.SUCCEEDED
    with _client(submission) as client, _package(submission) as package:
        namespace = submission.namespace or None
        experiment = client.create_experiment(arguments.pop("experiment"), namespace=namespace).experiment_id
        if submission.when:
            made = client.create_recurring_run(experiment, pipeline_package_path=package, **arguments)
            print(f"recurring run {made.display_name} created: {made.recurring_run_id}")
            print(f"Watch it: {_page(client)}/#/recurringrun/details/{made.recurring_run_id}")
            return Exit.SUCCEEDED
        made = client.run_pipeline(experiment, pipeline_package_path=package, **arguments)
        print(f"run {made.display_name} created: {made.run_id}")
        print(f"Its jobs: tfsteps show {made.run_id} --on kubernetes")
        return _wait(client, made.run_id) if submission.wait else Exit.SUCCEEDED


def _arguments(submission: Submission, now: float) -> dict[str, Any]:
    """Return what the client is told beside the pipeline itself."""
    definitions = submission.compiled.documents[0].get("root", {}).get("inputDefinitions", {})
    arguments = {
        "experiment": submission.experiment,
        "job_name": submission.name or f"{submission.compiled.name} {local_time(now)}",
        "params": typed(submission.parameters, definitions.get("parameters", {})),
        **({"service_account": submission.service_account} if submission.service_account else {}),
    }
    return arguments | (_when(submission.when, submission.server_timezone, now) if submission.when else {})


def _when(when: Schedule, server_timezone: str, now: float) -> dict[str, Any]:
    try:
        zoneinfo.ZoneInfo(server_timezone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise CommandError(f"--server-timezone {server_timezone!r} is no IANA time zone; write one, or UTC") from error
    if problems := kubeflow.problems(when, now, server_timezone):
        raise SpecError(problems, "schedule")
    if when.concurrency == "allow":
        warn(f"Kubeflow Pipelines lets {kubeflow.MOST_AT_ONCE} runs of a schedule overlap, and no more")
    print_fires(when, kubeflow.fires(when, now, server_timezone))
    return kubeflow.recurring_run(when, now, server_timezone)


@contextlib.contextmanager
def _package(submission: Submission) -> Iterator[str]:
    """Yield a file of the compiled pipeline, as the client wants one."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "pipeline.yaml")
        file.write_text(submission.compiled.text, encoding="utf-8")
        yield str(file)


@contextlib.contextmanager
def _client(submission: Submission) -> Iterator[Any]:
    """Yield the client; what the server refuses ends the command."""
    try:
        import kfp  # noqa: PLC0415  half a second, and not always installed
        import kfp_server_api  # type: ignore[import-untyped]  # noqa: PLC0415
        import urllib3.exceptions  # noqa: PLC0415
    except ImportError as error:
        raise CommandError(f"Kubeflow's client is not installed ({error}); install tfsteps[kfp]") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # that it speaks to version 2 alone
            client = kfp.Client(host=submission.host or None, kube_context=submission.context or None)
        yield client
    except kfp_server_api.ApiException as error:
        code = Exit.USAGE if error.status and 400 <= error.status < 500 else Exit.PLATFORM
        raise CommandError(f"Kubeflow Pipelines refused: {error.status} {error.body or error.reason}", code) from error
    except (urllib3.exceptions.HTTPError, TimeoutError) as error:
        words = f"Kubeflow Pipelines cannot be reached: {error}; give --host, or set KF_PIPELINES_ENDPOINT"
        raise CommandError(words, Exit.PLATFORM) from error
    except ValueError as error:  # its own checks
        raise CommandError(f"Kubeflow's client refused: {error}") from error


def _wait(client: Any, run_id: str) -> Exit:
    """Wait for a run's end; the client's own waiting never ends for one that was cancelled."""
    failures = 0
    while (state := _state(client, run_id)) not in _ENDED:
        failures = 0 if state else failures + 1
        if failures > _MOST_FAILURES:
            raise CommandError(
                f"run {run_id} goes on, but Kubeflow Pipelines does not answer; see there", Exit.PLATFORM
            )
        time.sleep(_LOOK_SECONDS)
    print(f"run {run_id} {state}")
    return _ENDED[state]


def _state(client: Any, run_id: str) -> str:
    """Return the state of a run; empty if the server does not say."""
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
    return str(client._get_url_prefix())  # noqa: SLF001  what its own links begin with
