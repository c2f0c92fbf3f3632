"""Submits to Kubeflow Pipelines with its own client: a run, or a recurring run."""

import contextlib
import copy
import datetime as dt
import difflib
import io
import itertools
import json
import os
import pathlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

import yaml
from msgspec.structs import replace

from tfsteps.console.errors import CommandError
from tfsteps.console.messages import say, warn
from tfsteps.console.text import local_time
from tfsteps.engines.authoring import Compiled, LintError
from tfsteps.engines.cluster_checks import JOB_STEPS, check_settings, missing_objects
from tfsteps.engines.kfp import lint, recurring_run
from tfsteps.engines.kfp.authoring import NAMESPACE, pod_references
from tfsteps.engines.kfp.client import is_configured, open_client, pages
from tfsteps.engines.kfp.graph import calls
from tfsteps.engines.kfp.inputs import definitions, typed
from tfsteps.engines.kfp.submit_options import KubeflowSubmitOptions
from tfsteps.engines.submission import Submission, agree, print_yaml, show_command
from tfsteps.kube.access import find
from tfsteps.kube.client import Api
from tfsteps.kube.credentials import AccessError
from tfsteps.kube.errors import ApiError
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.runs.demo import DEMO, Mark
from tfsteps.runs.identity import MANUAL, TRIGGER, spec_hash
from tfsteps.schedule.types import utc
from tfsteps.settings.find import VARIABLE
from tfsteps.spec import SpecError
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes.job_cluster import JobCluster
from tfsteps.systems.kubernetes.preflight.references import ACCOUNTS, Reference
from tfsteps.systems.kubernetes.system import SPEC_HASH
from tfsteps.text import timezones

_LOOK_SECONDS = 5.0
_SETTLE_SECONDS = 3.0  # longer than the precision of created_at
_STARTING_SECONDS = 60.0
_PAUSED = "DISABLED"
_DEMO_LINE = f"{DEMO}: true"
"""In the description of a run that is a demo, below its first line."""
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
        SpecError: The schedule cannot be expressed, the run would fail with these arguments, or platform settings
            refuse a job.
        CommandError: Anything else.
    """
    now = time.time()
    arguments = _arguments(submission, now)
    if problems := lint.lint_messages(submission.compiled.text, arguments["params"]):
        raise LintError(submission.compiled.source, problems)
    if submission.demo:
        if submission.when:
            raise CommandError(
                "--demo is for a run: the API of Kubeflow Pipelines cannot remove the mark of a recurring run; "
                "leave --demo out"
            )
        submission = replace(submission, compiled=_marked(submission.compiled, submission.demo))
    if submission.dry_run:
        _check_settings(submission, None)
        print_yaml([arguments])
        if submission.replace:
            with open_client(submission.host, submission.context) as client:
                for run in _manual_runs(client, submission):
                    say(f"would remove the manual run {run.run_id} ({run.display_name}, {run.state})")
        return ExitCode.SUCCEEDED
    kubernetes = _kubernetes(submission)
    _check_settings(submission, kubernetes)
    for warning in _missing(submission, kubernetes, arguments["params"]):
        warn(warning)
    with open_client(submission.host, submission.context) as client:
        if submission.when:
            print(_schedule(client, submission, arguments))
            return ExitCode.SUCCEEDED
        if submission.replace:
            _clear_manual(client, submission)
        demo = f"\n{_DEMO_LINE}" if submission.demo else ""
        _describe_runs(client, f"{_manual(submission)}{demo}")
        run, experiment, printed = _create(client, submission, arguments)
        print(printed, end="")
        print(f"run {run.display_name} created: {run.run_id}")
        namespace = submission.namespace or experiment.namespace or NAMESPACE
        print(f"Its jobs: {show_command(run.run_id, submission.context, namespace)}")
        return _wait(client, run.run_id) if submission.wait else ExitCode.SUCCEEDED


def _kubernetes(submission: Submission) -> Api | None:
    """Return the cluster of the back end; None = none is configured, or the kubeconfig may be for another one."""
    if is_configured(submission.host) and not submission.context:
        return None
    try:
        return Api(find(submission.context), patience=0)
    except AccessError:
        return None


def _check_settings(submission: Submission, kubernetes: Api | None) -> None:
    """Raise LintError if platform settings refuse a job; warn if they cannot be read: the launchers read them, too."""
    compiled = submission.compiled
    later = f"{compiled.source}: its jobs are not checked against platform settings, only by their launchers"
    if kubernetes is None and not os.environ.get(VARIABLE) and not submission.dry_run:
        if any(call.step in JOB_STEPS for call in calls(compiled.documents[0])):
            warn(f"{later}: the cluster of the API is not known; add --context NAME")
        return
    cluster = JobCluster(submission.context, submission.namespace or NAMESPACE, home=kubernetes)
    try:
        check_settings(compiled, submission.parameters, cluster, ask=not submission.dry_run)
    except LaunchError as error:  # Kubeflow Pipelines may be reachable where Kubernetes is not
        warn(f"{later}: {error}")


def _missing(submission: Submission, kubernetes: Api | None, arguments: dict[str, Any]) -> list[str]:
    """Return warnings about missing objects; empty if the cluster is not known."""
    named = [*pod_references(submission.compiled.documents, arguments)]
    if submission.service_account:
        named.append(Reference(ACCOUNTS, submission.service_account))
    messages: list[str] = []
    with contextlib.suppress(ApiError):  # as above
        messages.extend(missing_objects(kubernetes, submission.namespace or NAMESPACE, named) if kubernetes else ())
    return messages


def _schedule(client: Any, submission: Submission, arguments: dict[str, Any]) -> str:
    """Create a recurring run, or replace the one that was submitted before; return the lines to print.

    The API cannot change a recurring run, nor refuse a name that is taken. Each one is created paused, and enabled when
    the old one is paused and no other submitter created one at the same time: no date is run twice. The old one is not
    deleted: its Workflows would be deleted with it, running ones too.
    """
    mark = f"{SPEC_HASH}: {spec_hash([submission.compiled.text, arguments])}"
    described = {**arguments, "description": mark, "enabled": False}
    existing = _same_name(client, submission, arguments)
    active = [run for run in existing if run.status != _PAUSED]
    unstarted = [*itertools.takewhile(lambda run: run.status == _PAUSED and run.description == mark, existing)]
    if same := [*(run for run in active if run.description == mark), *unstarted[-1:]]:
        if others := [run for run in active if run is not same[0]]:
            _take_over(client, same[0], others)
        state = "" if active else f"; it is paused: `tfsteps schedules resume {same[0].recurring_run_id}` starts it"
        return f"recurring run {same[0].display_name} already exists: {same[0].recurring_run_id}{state}"
    if existing:
        _refuse_second_change(existing[0], active)
        old = [*active, *existing][0]
        agree(_difference(old, submission, arguments), yes=submission.yes)
        if not arguments["no_catchup"]:  # the dates until now are those of the old one
            described["start_time"] = max(described.get("start_time", ""), utc(int(time.time())))
    run, _, _ = _create(client, submission, described)
    if existing and not active:
        say(f"it is paused, as the one before was; `tfsteps schedules resume {run.recurring_run_id}` starts it")
    else:
        run = _start(client, submission, arguments, run, existing)
    if not existing:
        return _created(client, run)
    remove = f"tfsteps schedules delete {old.recurring_run_id}"
    return f"{_created(client, run)}\nThe one before is paused; delete it when its runs have ended: `{remove}`"


def _refuse_second_change(newest: Any, active: Sequence[Any]) -> None:
    """Raise CommandError if another submitter has created its recurring run, and has not started it yet."""
    age = time.time() - newest.created_at.timestamp()
    if active and newest.status == _PAUSED and age < _STARTING_SECONDS:
        raise CommandError(
            f"nothing was changed: recurring run {newest.recurring_run_id} of this name was created {age:.0f} s ago "
            "and is not started yet; another submitter changes the schedule, or was interrupted: retry in a minute"
        )


def _start(client: Any, submission: Submission, arguments: dict[str, Any], run: Any, before: Sequence[Any]) -> Any:
    """Enable a new recurring run in place of the active ones and return it; the first one of several submitters counts.

    Of those that were created since `before` was read the oldest counts. Times of creation are whole seconds, so each
    submitter waits for longer than one before it looks: none that is older can appear afterwards. If this one is not
    the oldest, it is deleted, and a CommandError is raised unless the oldest has the same content.
    """
    again = f"tfsteps schedules resume {run.recurring_run_id}"
    say(f"recurring run {run.recurring_run_id} starts paused; if this is interrupted: `{again}`")
    time.sleep(_SETTLE_SECONDS)
    known = {item.recurring_run_id for item in before}
    present = _same_name(client, submission, arguments)
    created = [item for item in present if item.recurring_run_id not in known]
    if run.recurring_run_id not in [item.recurring_run_id for item in created]:
        raise CommandError(f"recurring run {run.recurring_run_id} was deleted before it started; submit it again")
    first = created[-1]
    if first.recurring_run_id != run.recurring_run_id:
        client.delete_recurring_run(run.recurring_run_id)
        message = f"another submitter created recurring run {first.recurring_run_id} of this name at the same time"
        if first.description != run.description:
            raise CommandError(f"{message}, and this one was deleted; submit again to compare them")
        say(f"{message}, with the same content; {run.recurring_run_id} was deleted")
        return first
    _take_over(client, run, [item for item in present if item.status != _PAUSED])
    return run


def _manual(submission: Submission) -> str:
    """Return the description of the manual runs of a pipeline, by which `--replace` recognizes them."""
    return f"{TRIGGER}: {MANUAL} ({submission.compiled.name})"


def _describe_runs(client: Any, description: str) -> None:
    """Make a client give each run that it creates a description, for which `run_pipeline` has no argument."""
    send = client._run_api.run_service_create_run  # noqa: SLF001

    def described(*, run: Any) -> Any:
        run.description = description
        return send(run=run)

    client._run_api.run_service_create_run = described  # noqa: SLF001


def _manual_runs(client: Any, submission: Submission) -> list[Any]:
    """Return the earlier manual runs of a pipeline: those that `submit` created, and that no schedule did.

    Raises:
        CommandError: One is a demo.
    """
    runs = []
    for run in pages(client.list_runs, "runs", namespace=submission.namespace or None):
        description, *marks = (run.description or "").splitlines() or [""]
        if description != _manual(submission) or run.recurring_run_id:
            continue
        if _DEMO_LINE in marks:
            page = f"{_page(client)}/#/runs/details/{run.run_id}"
            raise CommandError(
                f"nothing was removed or submitted: run {run.run_id} ({run.display_name}) is a demo, and demos are "
                f"read-only; delete it on its page first ({page}), or leave --replace out"
            )
        runs.append(run)
    return runs


def _clear_manual(client: Any, submission: Submission) -> None:
    """Stop and delete the earlier manual runs of a pipeline."""
    for run in _manual_runs(client, submission):
        say(f"removing the manual run {run.run_id} ({run.display_name})")
        if str(run.state) not in _ENDED:
            client.terminate_run(run.run_id)
            _wait(client, run.run_id)
        client.delete_run(run.run_id)


def _marked(compiled: Compiled, mark: Mark) -> Compiled:
    """Return a pipeline whose pods have the mark of a demo, which each launcher gives to its job."""
    pipeline, *others = copy.deepcopy(compiled.documents)
    options = others[0] if others else {}
    place = options
    for field in ("platforms", "kubernetes", "deploymentSpec", "executors"):
        place = place.setdefault(field, {})
    for name, executor in ((pipeline.get("deploymentSpec") or {}).get("executors") or {}).items():
        if "container" in executor:
            settings = place.setdefault(name, {})
            settings["podMetadata"] = mark.put(settings.get("podMetadata") or {})
    documents = [pipeline, options]
    return replace(compiled, text=yaml.safe_dump_all(documents, allow_unicode=True), documents=documents)


def _take_over(client: Any, run: Any, before: Sequence[Any]) -> None:
    """Pause the recurring runs that another one replaces, then enable that; also after an interruption."""
    for item in before:
        client.disable_recurring_run(item.recurring_run_id)
    client.enable_recurring_run(run.recurring_run_id)


def _created(client: Any, run: Any) -> str:
    page = f"Watch it: {_page(client)}/#/recurringrun/details/{run.recurring_run_id}"
    return f"recurring run {run.display_name} created: {run.recurring_run_id}\n{page}"


def _same_name(client: Any, submission: Submission, arguments: dict[str, Any]) -> list[Any]:
    """Return the recurring runs of this name in the experiment, the newest first."""
    with contextlib.redirect_stdout(io.StringIO()):
        experiment = client.create_experiment(arguments["experiment"], namespace=submission.namespace or None)
    recurring = pages(client.list_recurring_runs, "recurring_runs", experiment_id=experiment.experiment_id)
    named = [run for run in recurring if run.display_name == arguments["job_name"]]
    return sorted(named, key=lambda run: (run.created_at, run.recurring_run_id), reverse=True)


def _difference(old: Any, submission: Submission, arguments: dict[str, Any]) -> str:
    """Return how a recurring run changes, as a unified diff."""
    title = f"recurring run {old.display_name} ({old.recurring_run_id})"
    spec = [*submission.compiled.documents]
    after = {
        "cron": arguments.get("cron_expression"),
        "interval_second": arguments.get("interval_second"),
        "start_time": arguments.get("start_time"),
        "end_time": arguments.get("end_time"),
        "max_concurrency": str(arguments["max_concurrency"]),
        "no_catchup": arguments["no_catchup"],
        "parameters": arguments["params"],
        "service_account": arguments.get("service_account"),
        "pipeline": spec[0],
    }
    trigger = old.trigger and (old.trigger.cron_schedule or old.trigger.periodic_schedule)
    stored = old.pipeline_spec or {}
    before = {
        "cron": getattr(trigger, "cron", None),
        "interval_second": int(seconds) if (seconds := getattr(trigger, "interval_second", None)) else None,
        "start_time": _utc(trigger and trigger.start_time),
        "end_time": _utc(trigger and trigger.end_time),
        "max_concurrency": old.max_concurrency,
        "no_catchup": bool(old.no_catchup),
        "parameters": (old.runtime_config and old.runtime_config.parameters) or {},
        "service_account": old.service_account if "service_account" in arguments else None,
        "pipeline": stored.get("pipeline_spec", stored),
    }
    now, then = (yaml.safe_dump(_whole_numbers(fields), width=120).splitlines() for fields in (before, after))
    return "\n".join(difflib.unified_diff(now, then, f"{title}, now", f"{title}, then", lineterm=""))


def _whole_numbers(fields: Any) -> Any:
    """Return plain data with 1 for 1.0: compiled pipelines have the latter, and the server returns the former."""
    return json.loads(json.dumps(fields), parse_float=lambda text: int(n) if (n := float(text)).is_integer() else n)


def _utc(moment: dt.datetime | None) -> str | None:
    return utc(int(moment.timestamp())) if moment and moment.timestamp() else None


def _create(client: Any, submission: Submission, arguments: dict[str, Any]) -> tuple[Any, Any, str]:
    """Create the run or the recurring run; return it, its experiment, and the output of the client.

    The client prints the experiment's address before the run is created, and standard output may be closed.
    """
    create = client.create_recurring_run if submission.when else client.run_pipeline
    with _package(submission) as package, contextlib.redirect_stdout(io.StringIO()) as printed:
        options = {name: value for name, value in arguments.items() if name != "experiment"}
        experiment = client.create_experiment(arguments["experiment"], namespace=submission.namespace or None)
        run = create(experiment.experiment_id, pipeline_package_path=package, **options)
    return run, experiment, printed.getvalue()


def _options(submission: Submission) -> KubeflowSubmitOptions:
    options: KubeflowSubmitOptions = submission.options
    return options


def _arguments(submission: Submission, now: float) -> dict[str, Any]:
    """Return the arguments of the client, without the pipeline."""
    name, options = submission.compiled.name, _options(submission)
    arguments = {
        "experiment": options.experiment,
        "job_name": submission.name or (name if submission.when else f"{name} {local_time(now)}"),
        "params": typed(submission.parameters, definitions(submission.compiled)),
        **({"service_account": submission.service_account} if submission.service_account else {}),
    }
    when = submission.when
    return arguments | (recurring_run.arguments(when, now, options.server_timezone) if when else {})


def fire_times(submission: Submission, now: float) -> Iterator[int]:
    """Yield the start times of the runs of a schedule.

    Raises:
        SpecError: Kubeflow Pipelines cannot express the schedule.
        CommandError: The time zone of its server is unknown.
    """
    when, server_timezone = submission.when, _options(submission).server_timezone
    assert when is not None
    if fix := timezones.fix(server_timezone):
        raise CommandError(f"--server-timezone {server_timezone!r} {timezones.WRONG}. {fix}")
    if problems := recurring_run.schedule_problems(when, now, server_timezone):
        raise SpecError(problems, "schedule")
    if when.concurrency == "allow" and when.max_active_runs is None:
        warn(f"Kubeflow Pipelines runs at most {recurring_run.MOST_AT_ONCE} runs of a schedule at once")
    return recurring_run.fires(when, now, server_timezone)


@contextlib.contextmanager
def _package(submission: Submission) -> Iterator[str]:
    """Yield the path of a temporary file with the compiled pipeline, because the client requires a file."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "pipeline.yaml")
        file.write_text(submission.compiled.text, encoding="utf-8")
        yield str(file)


def _wait(client: Any, run_id: str) -> ExitCode:
    """Wait for a run's end; the client's own function never returns for a cancelled run."""
    failures = 0
    while (state := _state(client, run_id)) not in _ENDED:
        failures = 0 if state else failures + 1
        if failures > _MOST_FAILURES:
            raise CommandError(
                f"run {run_id} was not stopped, but Kubeflow Pipelines does not answer; see its pages",
                ExitCode.PLATFORM,
            )
        time.sleep(_LOOK_SECONDS)
    print(f"run {run_id} {state}")
    return _ENDED[state]


def _state(client: Any, run_id: str) -> str:
    """Return the state of a run; empty if the server does not answer."""
    import kfp_server_api  # type: ignore[import-untyped]  # noqa: PLC0415
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
