"""`python -m tfsteps.janitor`: a pass over all jobs every minute, or one."""

import argparse
import os
import sys
from collections.abc import Sequence

from tfsteps.engines.argo.abandoned import Workflows
from tfsteps.janitor.hai import HaiSweep
from tfsteps.janitor.sweep import Sweep
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.kube.errors import Stopped
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.printer import Printer
from tfsteps.launcher.signals import on_termination
from tfsteps.spec import format_duration
from tfsteps.spec.units import parse_duration
from tfsteps.systems import registry
from tfsteps.systems.hai import access as hai_access
from tfsteps.systems.hai.client import Client

_LONGEST_SECONDS = 86400.0
_PATIENCE_SECONDS = 30.0  # the next pass tries again


def main(argv: Sequence[str] | None = None) -> int:
    """Delete what is due, until SIGTERM or once; return the exit code. None = the process's own arguments."""
    options = _arguments().parse_args(argv)
    say = Printer().say
    try:
        api = Api(access.find(options.context), patience=_PATIENCE_SECONDS)
    except access.AccessError as error:
        say(f"The janitor cannot start: {error}.")
        return ExitCode.USAGE
    namespace = "" if options.all_namespaces else options.namespace or api.access.namespace

    try:
        hai = _hai(api)
    except access.AccessError as error:
        say(f"The janitor cannot start: {error}.")
        return ExitCode.USAGE

    def clean() -> ExitCode:
        try:
            counts = [Sweep(api, registry.kinds(), namespace, say, dry_run=options.dry_run).run()]
            if hai:
                workflows = Workflows(api, namespace)
                counts.append(HaiSweep(hai, workflows, namespace, say, dry_run=options.dry_run).run())
        except Stopped:
            return ExitCode.PLATFORM
        if not counts[0].served:
            say("The cluster knows no kind of job: no operator is installed.")
        served = [str(count) for count in counts if count.served]
        if options.once and served:
            say(f"{'; '.join(served)}.")
        return ExitCode.PLATFORM if any(count.failures for count in counts) else ExitCode.SUCCEEDED

    with on_termination(api.stopping.set):
        if options.once:
            return clean()
        where = f"of namespace {namespace}" if namespace else "of all namespaces"
        say(f"Looking at the jobs {where} every {format_duration(options.period)}.")
        while not api.stopping.is_set():
            clean()
            api.stopping.wait(options.period)
    return ExitCode.SUCCEEDED


def _hai(api: Api) -> Client | None:
    """Return the client of HAI Platform if this process is given an address; None = it is not. AccessError as `find`.

    A client's file alone is not enough: on a person's machine it is there for other reasons.
    """
    if not any(os.environ.get(name) for name in (hai_access.LAUNCHER_SERVER, hai_access.SERVER)):
        return None
    client = Client(hai_access.find(), patience=_PATIENCE_SECONDS)
    client.stopping = api.stopping
    return client


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tfsteps.janitor",
        description="Deletes abandoned jobs, and jobs whose retention time has passed.",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "-n", "--namespace", metavar="NS", default="", help="namespace of the jobs; default: this pod's own"
    )
    where.add_argument("-A", "--all-namespaces", action="store_true", help="jobs of all namespaces")
    when = parser.add_mutually_exclusive_group()
    when.add_argument(
        "--period", type=_period, default=60.0, metavar="TIME", help="pause between passes, 1s to 1d; default: 60s"
    )
    when.add_argument("--once", action="store_true", help="make one pass and exit")
    parser.add_argument("--dry-run", action="store_true", help="only print what would be deleted")
    parser.add_argument("--context", default="", help="context of the kubeconfig; default: this pod's cluster")
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
