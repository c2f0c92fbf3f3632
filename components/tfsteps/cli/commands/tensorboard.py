"""`tfsteps tensorboard`: the curves of runs in a browser, while they run or long after their end."""

import time
import webbrowser
from typing import Annotated

import typer

from tfsteps.cli.backends.find import LATEST, Selection
from tfsteps.cli.backends.place import Context, Namespace, On, OnOption, located, open_backend
from tfsteps.cli.commands.runs import Task
from tfsteps.launcher.signals import on_termination


def tensorboard(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN]...", help="Runs to show side by side.", show_default=LATEST),
    ] = None,
    *,
    task: Task = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 = any that is free.", show_default=False)
    ] = 0,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the address in a browser.")] = False,
    on: OnOption = None,
    context: Context = "",
    namespace: Namespace = "",
) -> None:
    """Show the event files of runs in TensorBoard until Ctrl-C.

    For runs of this machine, TensorBoard runs here. On a cluster it runs beside the data, and is started again if it
    has ended; this command forwards a local port to it through the API server. It goes on after Ctrl-C until it is
    idle.
    """
    names = runs or [LATEST]
    selections = [Selection(name, task) for name in dict.fromkeys(names)]
    with open_backend(located(selections[0], on, context, namespace)) as backend:
        jobs = [job for selection in selections for job in selection.of(backend.find(selection.run))]
        stopped: list[bool] = []
        with on_termination(lambda: stopped.append(True)), backend.tensorboard(jobs, port) as url:
            print(f"TensorBoard at {url}; Ctrl-C ends {'this command' if on is On.KUBERNETES else 'it'}", flush=True)
            if open_browser and not webbrowser.open(url):
                print("no browser could be started: open the address yourself", flush=True)
            while not stopped:
                time.sleep(0.1)
