"""`python -m tfsteps.janitor`: a pass over all jobs every minute, or one."""

import argparse
import sys
from collections.abc import Sequence

from tfsteps import systems
from tfsteps.cluster import access
from tfsteps.cluster.api import Api
from tfsteps.cluster.errors import Stopped
from tfsteps.exits import Exit
from tfsteps.janitor.sweep import Sweep
from tfsteps.printer import Printer
from tfsteps.spec import format_duration
from tfsteps.spec.units import parse_duration
from tfsteps.stopping import on_termination

_LONGEST_SECONDS = 86400.0
_PATIENCE_SECONDS = 30.0  # the next pass tries again


def main(argv: Sequence[str] | None = None) -> int:
    """Remove what is due until SIGTERM comes, or once; return the exit code. None = the process's own arguments."""
    given = _arguments().parse_args(argv)
    say = Printer().say
    try:
        api = Api(access.find(given.context), patience=_PATIENCE_SECONDS)
    except access.AccessError as error:
        say(f"The janitor cannot start: {error}.")
        return Exit.USAGE
    namespace = "" if given.all_namespaces else given.namespace or api.access.namespace

    def clean() -> Exit:
        sweep = Sweep(api, systems.kinds(), namespace, say, dry_run=given.dry_run)
        try:
            count = sweep.run()
        except Stopped:
            return Exit.PLATFORM
        if given.once or not count.served:
            say(f"{count}." if count.served else "The cluster knows no kind of job: no operator is installed.")
        return Exit.PLATFORM if count.failures else Exit.SUCCEEDED

    with on_termination(api.stopping.set):
        if given.once:
            return clean()
        where = f"of namespace {namespace}" if namespace else "of all namespaces"
        say(f"Looking at the jobs {where} every {format_duration(given.period)}.")
        while not api.stopping.is_set():
            clean()
            api.stopping.wait(given.period)
    return Exit.SUCCEEDED


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tfsteps.janitor",
        description="Removes jobs that nobody will come back for, and those that were kept long enough.",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-n", "--namespace", metavar="NS", default="", help="where to look; default: this pod's own")
    where.add_argument("-A", "--all-namespaces", action="store_true", help="look everywhere")
    when = parser.add_mutually_exclusive_group()
    when.add_argument(
        "--period", type=_period, default=60.0, metavar="TIME", help="pause between passes, 1s to 1d; default: 60s"
    )
    when.add_argument("--once", action="store_true", help="make one pass, and end")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be deleted")
    parser.add_argument("--context", default="", help="of the kubeconfig; default: this pod's cluster")
    return parser


def _period(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= _LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time from 1s to 1d, such as 60s or 5m")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
