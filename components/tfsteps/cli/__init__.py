"""The `tfsteps` command. Nothing else of tfsteps imports from here, and typer and rich are imported here alone."""

import sys

_INTERRUPTED = 130  # 128 + SIGINT


def main() -> None:
    """Run the command with the arguments of this process, and exit with one of `tfsteps.launcher.exit_codes`."""
    try:
        import importlib.util  # noqa: PLC0415  Ctrl-C may come while any module is imported

        from tfsteps.text import streams  # noqa: PLC0415

        streams.ensure()
        if not importlib.util.find_spec("typer"):
            needed = "pip install 'tfsteps[cli,local,tensorflow]'"
            sys.exit(f"The `tfsteps` command needs more packages than the core: {needed}")
        try:
            from tfsteps.cli.app import app  # noqa: PLC0415  importing `tfsteps.console.live_view` must not cost typer

            app(prog_name="tfsteps")
        except KeyboardInterrupt:  # while modules are imported; later typer exits with the same code
            streams.flush_and_exit(_INTERRUPTED)
        except SystemExit as end:
            streams.flush_and_exit(end.code if isinstance(end.code, int) else int(end.code is not None))
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
