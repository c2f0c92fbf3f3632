"""The `tfsteps` command. Nothing else of tfsteps imports from here, and typer and rich are imported here alone."""


def main() -> None:
    """Run the command with the arguments of this process, and exit with one of `tfsteps.exits`."""
    from tfsteps.cli.app import app  # noqa: PLC0415  importing `tfsteps.cli.view` must not cost typer

    app(prog_name="tfsteps")
