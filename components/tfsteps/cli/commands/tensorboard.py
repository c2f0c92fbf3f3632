"""`tfsteps tensorboard`: the curves of runs in a browser, while they run or long after their end."""

import time
import webbrowser
from typing import Annotated

import typer

from tfsteps.backends.base import EventFolder
from tfsteps.backends.find import Selection
from tfsteps.backends.open import located, open_backend
from tfsteps.cli.completion import complete_run
from tfsteps.cli.place_options import Context, From, Namespace, OnOption
from tfsteps.cli.run_options import Task
from tfsteps.console.errors import CommandError
from tfsteps.launcher.signals import on_termination
from tfsteps.runs.location import Location
from tfsteps.runs.store import LATEST


def tensorboard(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="Runs to show side by side.",
            show_default=LATEST,
            autocompletion=complete_run,
        ),
    ] = None,
    *,
    task: Task = None,
    log_dir: Annotated[
        str, typer.Option(metavar="FOLDER", help="Show this folder or URI of event files, without a run.")
    ] = "",
    claim: Annotated[
        str, typer.Option(metavar="NAME:PATH", help="With --log-dir on a cluster: the claim, and where it is mounted.")
    ] = "",
    image: Annotated[
        str, typer.Option(metavar="IMAGE", help="With --log-dir on a cluster: the image, in place of that of tfsteps.")
    ] = "",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 = any that is free.", show_default=False)
    ] = 0,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the address in a browser.")] = False,
    on: OnOption = None,
    context: Context = "",
    namespace: Namespace = "",
    from_: From = "",
) -> None:
    """Show the event files of runs in TensorBoard until Ctrl-C.

    For runs of this machine, TensorBoard runs here. On a cluster it runs beside the data, and is started again if it
    has ended; this command forwards a local port to it through the API server. It goes on after Ctrl-C until it is
    idle. When the job objects of a run are gone, --log-dir and --claim name its event files.
    """
    folder = _folder(runs, log_dir, claim, image)
    names = runs or [LATEST]
    selections = [Selection(name, task) for name in dict.fromkeys(names)]
    with open_backend(located(selections[0], on, context, namespace, records=from_), gone=True) as backend:
        if folder:
            tensorboard = backend.tensorboard_at(folder, port)
        else:
            jobs = [job for selection in selections for job in selection.of(backend.find(selection.run))]
            tensorboard = backend.tensorboard(jobs, port)
        stopped: list[bool] = []
        with on_termination(lambda: stopped.append(True)), tensorboard as url:
            forwarded = ", forwarded" if on == Location.KUBERNETES else ""
            print(f"TensorBoard{forwarded} until Ctrl-C: {url}", flush=True)
            if open_browser and not webbrowser.open(url):
                print("no browser could be started: open the address yourself", flush=True)
            while not stopped:
                time.sleep(0.1)


def _folder(runs: list[str] | None, log_dir: str, claim: str, image: str) -> EventFolder | None:
    """Return the folder that the options name; None = they name runs. CommandError if they contradict one another."""
    if not log_dir:
        for option, value in (("--claim", claim), ("--image", image)):
            if value:
                raise CommandError(f"{option} {value} has no effect without --log-dir; add --log-dir FOLDER")
        return None
    if runs:
        raise CommandError(f"--log-dir {log_dir} and run {runs[0]} cannot both be shown; leave one out")
    name, _, mount = claim.partition(":")
    if claim and not (name and mount):
        raise CommandError(f"--claim {claim} is not a claim and its path; write NAME:PATH, such as training:/data")
    return EventFolder(log_dir, name, mount, image)
