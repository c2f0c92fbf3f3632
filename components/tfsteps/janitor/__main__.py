"""`python -m tfsteps.janitor`: a pass over all jobs and, if asked for, schedules every minute; or one."""

import contextlib
import time
from collections.abc import Callable, Sequence

from tfsteps.engines import registry as engines
from tfsteps.engines.plugin import EnginePlugin
from tfsteps.janitor import metrics, options
from tfsteps.janitor.metrics import JanitorMetrics
from tfsteps.janitor.options import Options
from tfsteps.janitor.sweep import Count, Sweep, sweep_others
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.kube.credentials import AccessError
from tfsteps.kube.errors import Stopped
from tfsteps.kube.resource import PODS
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.printer import Printer
from tfsteps.launcher.signals import on_termination
from tfsteps.spec import format_duration
from tfsteps.systems import registry
from tfsteps.systems.plugin import Platform
from tfsteps.text import streams

_PATIENCE_SECONDS = 30.0  # the next pass tries again


def main(argv: Sequence[str] | None = None) -> int:
    """Delete what is due, until SIGTERM or once; return the exit code. None = the process's own arguments."""
    chosen = options.parse(argv)
    say = Printer().say
    try:
        api = Api(access.find(chosen.context), patience=_PATIENCE_SECONDS)
        janitor = _Janitor(api, chosen, say)
    except AccessError as error:
        say(f"The janitor cannot start: {error}.")
        return ExitCode.USAGE
    with on_termination(api.stopping.set):
        return janitor.clean() if chosen.once else janitor.serve()


class _Janitor:
    """Makes passes, and counts what they do."""

    def __init__(self, api: Api, chosen: Options, say: Callable[[str], None]) -> None:
        self._api, self._options, self._say = api, chosen, say
        self._namespace = "" if chosen.all_namespaces else chosen.namespace or api.access.namespace
        self._sweeps: list[tuple[Platform, Callable[[], Count]]] = [
            (platform, sweep)
            for platform in registry.platforms()
            if platform.sweep and (sweep := platform.sweep(api, self._namespace, say, dry_run=chosen.dry_run))
        ]
        self._engines = [
            engine for engine in engines.plugins().values() if chosen.schedules and engine.keep_schedules is not None
        ]
        of_platforms = [platform.kind for platform, _ in self._sweeps]
        kinds = [PODS.kind, *(kind.resource.kind for kind in registry.kinds()), *of_platforms]
        self._metrics = JanitorMetrics(kinds, chosen.period)

    def serve(self) -> ExitCode:
        """Make passes until `stopping` is set."""
        port = self._options.metrics_port
        with contextlib.ExitStack() as stack:
            if port:
                try:
                    stack.enter_context(metrics.serve(self._metrics, port))
                except OSError as error:
                    self._say(
                        f"The janitor cannot start: --metrics-port {port} cannot be used: {error.strerror}. "
                        "Choose a free port, or 0 for no metrics."
                    )
                    return ExitCode.USAGE
            where = f"of namespace {self._namespace}" if self._namespace else "of all namespaces"
            self._say(f"Looking at the jobs {where} every {format_duration(self._options.period)}.")
            while not self._api.stopping.is_set():
                self.clean()
                self._api.stopping.wait(self._options.period)
        return ExitCode.SUCCEEDED

    def clean(self) -> ExitCode:
        """Make one pass."""
        begun, dry_run = time.monotonic(), self._options.dry_run
        jobs = Sweep(
            self._api, registry.kinds(), self._namespace, self._say, default=self._options.default, dry_run=dry_run
        )
        try:
            # Schedules first: their dates are due now, and a pass over many jobs takes minutes.
            schedules = [self._keep_schedules(engine) for engine in self._engines]
            counts = [jobs.run(), *(self._swept(*sweep) for sweep in self._sweeps), *self._others()]
        except Stopped:
            return ExitCode.PLATFORM
        of_jobs = [*counts, *(Count(failures=count.failures) for count in schedules)]  # schedules are no jobs
        self._metrics.finish_pass(of_jobs, time.monotonic() - begun, self._api.server_time() or time.time())
        counts += schedules
        if not counts[0].served:
            self._say("The cluster serves no supported job kind: no operator is installed.")
        served = [str(count) for count in counts if count.served]
        if self._options.once and served:
            self._say(f"{'; '.join(served)}.")
        return ExitCode.PLATFORM if any(count.failures for count in counts) else ExitCode.SUCCEEDED

    def _keep_schedules(self, engine: EnginePlugin) -> Count:
        """Make the pass over the schedules of one engine: a fault in it must not end the janitor."""
        assert engine.keep_schedules is not None
        try:
            kept = engine.keep_schedules(self._api, self._namespace, self._say, self._options.dry_run)
        except Stopped:
            raise
        except Exception as error:  # noqa: BLE001  as above
            self._say(f"{engine.title}: the pass over schedules failed: {error!r}")
            return Count(failures=1)
        return Count(
            jobs=kept.schedules, due=kept.started, failures=kept.failures, served=1, what="schedules", act="runs"
        )

    def _others(self) -> list[Count]:
        """Make the pass over the other clusters of the settings, if asked for."""
        if not self._options.clusters:
            return []
        return [*sweep_others(self._api, self._namespace, self._say, dry_run=self._options.dry_run)]

    def _swept(self, platform: Platform, sweep: Callable[[], Count]) -> Count:
        """Make the pass over one platform: a fault in its package must not end the janitor."""
        try:
            return sweep()
        except Stopped:
            raise
        except Exception as error:  # noqa: BLE001  as above
            self._say(f"{platform.title}: the pass failed: {error!r}")
            return Count(failures=1)


if __name__ == "__main__":
    streams.flush_and_exit(main())
