"""The options of `python -m tfsteps.janitor`. Some can also be set by environment variables, in a Deployment."""

import argparse
import os
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from tfsteps.janitor.rules import DEFAULT, DefaultRetention
from tfsteps.spec.units import parse_duration
from tfsteps.systems import platforms
from tfsteps.systems.plugin import load

VARIABLES = {
    "keep_succeeded": "TFSTEPS_JANITOR_KEEP_SUCCEEDED",
    "keep_failed": "TFSTEPS_JANITOR_KEEP_FAILED",
    "preset": "TFSTEPS_JANITOR_PRESET",
    "metrics_port": "TFSTEPS_JANITOR_METRICS_PORT",
}
"""The environment variables by option; an empty one counts as not set. An option wins over its variable."""

_LONGEST_PERIOD_SECONDS, _LONGEST_KEEPING_SECONDS = 86400.0, 3650 * 86400.0
_FOR_EVER = "forever"
_T = TypeVar("_T")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options.

    Attributes:
        namespace: Of the jobs; empty = the default.
        all_namespaces: Look at the jobs of all namespaces.
        period: Seconds between passes.
        once: Make one pass and exit.
        dry_run: Delete nothing.
        context: Of the kubeconfig; empty = the default.
        default: The retention of ended jobs without `keep_for`.
        metrics_port: Port of the metrics; 0 = none.
        schedules: Start the runs of schedules whose rules the janitor keeps.
        clusters: Look at the other clusters of the settings, too.
    """

    namespace: str
    all_namespaces: bool
    period: float
    once: bool
    dry_run: bool
    context: str
    default: DefaultRetention
    metrics_port: int
    schedules: bool
    clusters: bool


def parse(argv: Sequence[str] | None) -> Options:
    """Return the options of a command line and the environment; None = the process's own arguments.

    Raises:
        SystemExit: An option or a variable is invalid; the message is on standard error.
    """
    parser = _parser()
    fields = vars(parser.parse_args(argv))
    if fields["clusters"] and fields["all_namespaces"]:
        parser.error("--clusters is for the settings of one namespace, not for --all-namespaces; leave one out")

    def take(name: str, convert: Callable[[str], _T], absent: _T) -> _T:
        """Remove an option from the fields and return its value, else that of its variable."""
        option: _T | None = fields.pop(name)
        text = os.environ.get(VARIABLES[name], "")
        if option is not None or not text:
            return absent if option is None else option
        try:
            return convert(text)
        except argparse.ArgumentTypeError as error:
            parser.error(f"environment variable {VARIABLES[name]}: {error}")

    metrics_port = take("metrics_port", _port, 0)
    preset = take("preset", _preset, DEFAULT)
    default = DefaultRetention(
        succeeded=_finite(take("keep_succeeded", _keeping, preset.succeeded)),
        failed=_finite(take("keep_failed", _keeping, preset.failed)),
    )
    return Options(**fields, metrics_port=metrics_port, default=default)


def _parser() -> argparse.ArgumentParser:
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
    parser.add_argument("--dry-run", action="store_true", help="only print what would be deleted or started")
    parser.add_argument("--context", default="", help="context of the kubeconfig; default: this pod's cluster")
    parser.add_argument(
        "--schedules",
        action="store_true",
        help="start the runs of schedules that were submitted with --scheduler janitor; the period is their accuracy",
    )
    parser.add_argument(
        "--clusters",
        action="store_true",
        help="also delete jobs on the other clusters of the platform settings whose run here is gone; not with -A",
    )
    _add_retention(parser)
    variable = VARIABLES["metrics_port"]
    parser.add_argument(
        "--metrics-port",
        type=_port,
        metavar="PORT",
        help=f"serve /metrics and /healthz on this port, not with --once; default: {variable}, else 0 = do not",
    )
    return parser


def _add_retention(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("retention of ended jobs without keep_for")
    for name, jobs, otherwise in (
        ("keep_succeeded", "succeeded", _FOR_EVER),
        ("keep_failed", "failed or were cancelled", "30d"),
    ):
        group.add_argument(
            f"--{name.replace('_', '-')}",
            type=_keeping,
            metavar="TIME",
            help=f"delete jobs that {jobs} this long ago, 0s to 3650d; default: {VARIABLES[name]}, else that of the "
            f"preset, else {otherwise}",
        )
    group.add_argument(
        "--preset",
        type=_preset,
        metavar="NAME",
        help=f"the retention of another platform, {' or '.join(_presets())}; default: {VARIABLES['preset']}",
    )


def _finite(seconds: float | None) -> float | None:
    return None if seconds == float("inf") else seconds


def _period(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= _LONGEST_PERIOD_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time from 1s to 1d, such as 60s or 5m")
    return seconds


def _keeping(text: str) -> float:
    """Return seconds; inf = for ever."""
    try:
        seconds = float("inf") if text == _FOR_EVER else parse_duration(text)
    except ValueError:
        seconds = -1.0
    if not (0 <= seconds <= _LONGEST_KEEPING_SECONDS or text == _FOR_EVER):
        raise argparse.ArgumentTypeError(f"{text!r} is not {_FOR_EVER} or a time from 0s to 3650d, such as 3h or 7d")
    return seconds


def _presets() -> dict[str, str]:
    """Return the retention of each platform that has one, as `module:name`."""
    return {name: platform.retention for name, platform in platforms.plugins().items() if platform.retention}


def _preset(text: str) -> DefaultRetention:
    presets = _presets()
    if text not in presets:
        raise argparse.ArgumentTypeError(f"{text!r} is not a preset; choose {' or '.join(presets)}")
    preset: DefaultRetention = load(presets[text])
    return preset


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) < 65536):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 1 to 65535, or 0 for none")
    return int(text)
