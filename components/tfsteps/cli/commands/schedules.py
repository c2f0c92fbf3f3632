"""`tfsteps schedules`: lists the schedules of pipelines, shows their records, and changes them."""

import datetime as dt
import enum
import shlex
import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from msgspec.structs import replace

from tfsteps.cli.place_options import AllNamespaces
from tfsteps.cli.run_options import OutputOption
from tfsteps.console.errors import CommandError
from tfsteps.console.inputs import confirmed
from tfsteps.console.messages import say, warn
from tfsteps.console.outputs import OutputFormat, print_json, print_table
from tfsteps.console.text import clean, iso
from tfsteps.engines import registry
from tfsteps.engines.schedules import ScheduledRun, SchedulePlace, Schedules, ScheduleState
from tfsteps.spec import format_duration

_SHOWN = 50  # records
_ENGINES = {plugin.name: plugin for plugin in registry.most_specific_first() if plugin.schedules}
_OBJECTS = "; ".join(f"{name}: {plugin.schedule_objects}" for name, plugin in _ENGINES.items())
_SPARE = ("KIND", "NAMESPACE", "SCHEDULE", "LAST")


class ScheduleAction(enum.StrEnum):
    """What `tfsteps schedules` does."""

    LIST = "list"
    SHOW = "show"
    PAUSE = "pause"
    RESUME = "resume"
    RUN_NOW = "run-now"
    DELETE = "delete"


def schedules(
    action: Annotated[
        ScheduleAction,
        typer.Argument(
            help="list: all schedules. show: the records of one. pause, resume: start no runs, and start them again. "
            "run-now: a manual run of its pipeline. delete: the schedule and, on some engines, its "
            "runs, which are listed first."
        ),
    ] = ScheduleAction.LIST,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name or id of the schedule, for all but `list`.")
    ] = None,
    *,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar=f"<{'|'.join(_ENGINES)}>",
            help=f"The engine of the schedules. {_OBJECTS}.",
            show_default=f"the one whose API --host or the environment names, else {[*_ENGINES][-1]}",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without a question.")] = False,
    output: OutputOption = OutputFormat.TEXT,
    context: Annotated[
        str, typer.Option(metavar="NAME", help="Context of the kubeconfig.", show_default="current")
    ] = "",
    namespace: Annotated[
        str,
        typer.Option("--namespace", "-n", metavar="NAME", help="Their namespace.", show_default="the context's"),
    ] = "",
    all_namespaces: AllNamespaces = False,
    host: Annotated[
        str, typer.Option(metavar="URL", help="Address of the engine's API.", show_default="from the environment")
    ] = "",
    server_timezone: Annotated[
        str, typer.Option(metavar="ZONE", help="Time zone in which that API reads schedules.")
    ] = "UTC",
) -> None:
    """List the schedules of pipelines with their next and last runs; show, pause, resume, run or delete one.

    The records of a schedule are what the engine's objects say: a date without a run was skipped, or its run was
    removed.
    """
    place = SchedulePlace(
        context=context,
        namespace=namespace,
        everywhere=all_namespaces,
        host=host,
        server_timezone=server_timezone,
    )
    with _opener(engine, host)(place) as there:
        states = there.states()
        if action is ScheduleAction.LIST:
            if name is not None:
                raise CommandError(f"`list` shows all schedules; write `tfsteps schedules show {shlex.quote(name)}`")
            _list(states, output)
        else:
            _ACTIONS[action](there, _chosen(states, name, action), output, yes)


def _opener(engine: str | None, host: str) -> Any:
    configured = (name for name, plugin in _ENGINES.items() if plugin.is_configured and plugin.is_configured(host))
    name = engine or next(configured, [*_ENGINES][-1])
    if name not in _ENGINES:
        raise CommandError(f"engine {name!r} has no schedules: use one of {', '.join(_ENGINES)}")
    return _ENGINES[name].schedules


def _chosen(states: Sequence[ScheduleState], name: str | None, action: ScheduleAction) -> ScheduleState:
    known = ", ".join(sorted({clean(state.name) for state in states})) or "there are none here"
    if name is None:
        raise CommandError(f"`{action}` needs the name of a schedule: {known}")
    matches = [state for state in states if name in (state.name, state.id)]
    if not matches:
        raise CommandError(f"no schedule {name!r}: {known}")
    if len(matches) > 1:
        ids = ", ".join(f"{state.id} ({state.kind} in {state.namespace or 'no namespace'})" for state in matches)
        raise CommandError(f"{len(matches)} schedules are called {name!r}; write the id: {ids}")
    return matches[0]


# --- actions


def _list(states: Sequence[ScheduleState], output: OutputFormat) -> None:
    now = time.time()
    if output is OutputFormat.JSON:
        print_json([_summary(state, now) for state in states])
        return
    if not states:
        say("There are no schedules; `tfsteps submit PIPELINE --cron '0 2 * * *'` creates one.")
        return
    for warning in dict.fromkeys(f"{state.name}: {state.unknown}" for state in states if state.unknown):
        warn(warning)
    header = ("NAME", "KIND", "NAMESPACE", "SCHEDULE", "STATE", "NEXT", "LAST", "OUTCOME")
    print_table(header, [_row(state, now) for state in states], spare=_SPARE)


def _row(state: ScheduleState, now: float) -> list[str]:
    last = next((run for run in state.runs if run.name and not run.manual), None)
    return [
        clean(state.name),
        state.kind,
        state.namespace or "-",
        clean(state.when),
        "paused" if state.paused else "active",
        _next(state, now),
        _at(last.planned or last.sent) if last else "-",
        last.outcome if last else "unknown" if state.unknown else "-",
    ]


def _show(there: Schedules, state: ScheduleState, output: OutputFormat, yes: bool) -> None:  # noqa: ARG001  of all actions
    now = time.time()
    records = state.records(now)[:_SHOWN]
    if output is OutputFormat.JSON:
        print_json({**_summary(state, now), "records": [_record(run) for run in records]})
        return
    facts = {
        "schedule": f"{clean(state.name)} ({state.kind} {state.id})",
        "namespace": state.namespace or "-",
        "when": clean(state.when),
        "state": "paused" if state.paused else "active",
        "next": _next(state, now),
        **({"waiting": clean(state.waiting)} if state.waiting else {}),
    }
    print("\n".join(f"{name:<10} {value}" for name, value in facts.items()))
    if state.unknown:
        warn(state.unknown)
    if records:
        print()
        print_table(("PLANNED", "SENT", "RUN", "OUTCOME"), [_record_row(run) for run in records])


def _pause(there: Schedules, state: ScheduleState, output: OutputFormat, yes: bool) -> None:  # noqa: ARG001
    there.set_paused(state, paused=True)
    print(f"{state.kind} {clean(state.name)} paused; runs that exist are not stopped")


def _resume(there: Schedules, state: ScheduleState, output: OutputFormat, yes: bool) -> None:  # noqa: ARG001
    there.set_paused(state, paused=False)
    print(f"{state.kind} {clean(state.name)} resumed; next: {_next(replace(state, paused=False), time.time())}")


def _run_now(there: Schedules, state: ScheduleState, output: OutputFormat, yes: bool) -> None:  # noqa: ARG001
    print(f"manual run {there.run_now(state)} of {clean(state.name)} created")


def _delete(there: Schedules, state: ScheduleState, output: OutputFormat, yes: bool) -> None:  # noqa: ARG001
    print("\n".join(["to be removed:", *(f"  {clean(line)}" for line in there.deleted_with(state))]))
    if state.unknown:
        warn(state.unknown)
    command = f"tfsteps schedules delete {shlex.quote(state.name)} --yes"
    instead = f"nothing was removed: without a terminal, add --yes: `{command}`"
    if not confirmed("Remove all of this?", yes=yes, without_terminal=instead):
        say("nothing was removed")
        return
    there.delete(state)
    print(f"{state.kind} {clean(state.name)} deleted")


_ACTIONS: dict[ScheduleAction, Callable[[Schedules, ScheduleState, OutputFormat, bool], None]] = {
    ScheduleAction.SHOW: _show,
    ScheduleAction.PAUSE: _pause,
    ScheduleAction.RESUME: _resume,
    ScheduleAction.RUN_NOW: _run_now,
    ScheduleAction.DELETE: _delete,
}


# --- how a schedule is shown


def _next(state: ScheduleState, now: float) -> str:
    if state.paused:
        return "-"
    if state.schedule is None:
        return "unknown"
    if state.schedule.interval:
        return f"within {format_duration(state.schedule.interval)}"
    at = state.next_fire(now)
    return "never" if at is None else _at(at)


def _at(seconds: float | None) -> str:
    return "-" if seconds is None else dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _record_row(run: ScheduledRun) -> list[str]:
    planned = "manual" if run.manual else _at(run.planned)
    return [
        planned,
        _at(run.sent),
        clean(run.name) or "-",
        run.outcome if run.name or run.outcome != "unknown" else "no run is known",
    ]


def _record(run: ScheduledRun) -> dict[str, Any]:
    return {
        "planned": iso(run.planned),
        "sent": iso(run.sent),
        "run": run.name,
        "manual": run.manual,
        "outcome": run.outcome,
    }


def _summary(state: ScheduleState, now: float) -> dict[str, Any]:
    return {
        "name": state.name,
        "id": state.id,
        "kind": state.kind,
        "namespace": state.namespace,
        "schedule": state.when,
        "paused": state.paused,
        "next": iso(state.next_fire(now)),
        "unknown": state.unknown,
        "waiting": state.waiting,
        "runs": [_record(run) for run in state.runs],
    }
