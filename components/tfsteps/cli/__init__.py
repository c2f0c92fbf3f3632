"""The `tfsteps` command. Nothing else of tfsteps imports from here, and typer and rich are imported here alone."""

import importlib.util
import signal
import sys

from tfsteps.text import streams


def main() -> None:
    """Run the command with the arguments of this process, and exit with one of `tfsteps.launcher.exit_codes`."""
    streams.ensure()
    if not importlib.util.find_spec("typer"):
        sys.exit("The `tfsteps` command needs more packages than the core: pip install 'tfsteps[cli,local,tensorflow]'")
    try:
        from tfsteps.cli.app import app  # noqa: PLC0415  importing `tfsteps.console.live_view` must not cost typer

        app(prog_name="tfsteps")
    except KeyboardInterrupt:  # while modules are imported; later typer exits with the same code
        streams.flush_and_exit(128 + signal.SIGINT)
    except SystemExit as end:
        streams.flush_and_exit(end.code if isinstance(end.code, int) else int(end.code is not None))
