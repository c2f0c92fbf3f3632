"""`tfsteps logs`: the log lines of a run, also while it runs."""

import functools
import time
from typing import Annotated

import typer

from tfsteps.api import run_list
from tfsteps.api.queries import pass_log
from tfsteps.backends.base import MOST_LINES, LogOptions
from tfsteps.backends.find import Selection
from tfsteps.backends.log_printer import compile_grep
from tfsteps.backends.open import located, open_backend
from tfsteps.cli.completion import complete_replica, complete_task
from tfsteps.cli.place_options import AllNamespaces, Context, From, Namespace, OnOption
from tfsteps.cli.run_options import AttemptNumber, RunId
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import say
from tfsteps.console.text import clean

_Replicas = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="REPLICA",
        help="Only these: a role, `worker`; a replica, `worker-1`; one container of it, `worker-1/init-data`.",
        show_default="all",
        autocompletion=complete_replica,
    ),
]
_Tasks = Annotated[
    list[str] | None,
    typer.Option("--task", metavar="TASK", help="Only this task. Repeat it for several.", autocompletion=complete_task),
]
_Grep = Annotated[
    str | None,
    typer.Option(metavar="REGEX", help="Only lines in which this regular expression, in Python's syntax, is found."),
]
_Around = Annotated[
    int,
    typer.Option(
        "-C", min=0, max=10_000, metavar="N", help="Also N lines of the same replica around each that --grep finds."
    ),
]
_Since = Annotated[
    str | None, typer.Option(metavar="TIME", help="Only lines since then: 10m ago, or at 2026-11-21T07:30.")
]


def logs(
    run: RunId,
    replicas: _Replicas = None,
    *,
    task: _Tasks = None,
    attempt: AttemptNumber = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended.")] = False,
    grep: _Grep = None,
    ignore_case: Annotated[
        bool, typer.Option("--ignore-case", "-i", help="--grep ignores upper and lower case.")
    ] = False,
    around: _Around = 0,
    since: _Since = None,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Begin each line with its local time.")] = False,
    tail: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=MOST_LINES,
            help="Begin with the last lines, as many as this; of those that --grep and -C choose.",
        ),
    ] = None,
    on: OnOption = None,
    context: Context = "",
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
    from_: From = "",
) -> None:
    """Print the log of a run.

    Lines come as `[worker-1] text`, and as `[worker-1/name] text` from an init container or a sidecar; with the task
    before the replica if there are several, and as `[task] text` from a step of a local pipeline that launched no job.
    `--- worker-1, restart 1 ---` comes before the first line after a restart.

    On a terminal, control characters are shown as text, except colours. Elsewhere, lines are printed as they are.
    """
    for option, used in (("--ignore-case", ignore_case), ("-C", around)):
        if used and grep is None:
            raise CommandError(f"{option} is about --grep; add --grep, or leave it out")
    pattern = None if grep is None else compile_grep(grep, ignore_case=ignore_case)
    start = None if since is None else functools.partial(run_list.parse_since, since)
    if start:
        start(time.time())  # a wrong time is refused before anything is read
    names = list(dict.fromkeys(replicas or []))
    selection = Selection(run, None, attempt, tuple(task or ()))
    options = LogOptions(lambda _: True, timestamps, tail, follow, None, pattern, around)
    with open_backend(
        located(selection, on, context, namespace, everywhere=all_namespaces, records=from_), gone=True
    ) as backend:
        run_id, printed = pass_log(backend, selection, names, options, start)
    if not printed and tail != 0:
        conditions = {"of": " ".join(names), "since": since, "that match": grep}
        words = [f" {word} {clean(value)}" for word, value in conditions.items() if value]
        say(f"run {run_id}: no log lines{''.join(words)}")
