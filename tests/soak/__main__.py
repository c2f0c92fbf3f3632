"""`python -m tests.soak [--minutes N] [--jobs N] [--seed N] [--parallel N] [--break]`: soak the cluster of KUBECONFIG.

Jobs of all systems are launched, launchers are killed and stopped, requests fail, the janitor is restarted; at the end
a judge looks at every object and every launcher. The exit code is 1 if anything is wrong. With --break the soak itself
leaves an orphan and removes a job that must be kept, and the exit code is 1 unless the judge finds both.
"""

import argparse
import concurrent.futures
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Sequence

from tests.conformance.systems import SYSTEMS
from tests.soak import judge, page
from tests.soak.environment import Environment
from tests.soak.job_run import JobRun
from tests.soak.plan import KEPT_SECONDS, PlannedJob, plan
from tests.soak.recorder import Recorder
from tfsteps.kube.client import Api
from tfsteps.kube.resource import Resource
from tfsteps.runs.identity import MANAGED_BY, RUN_ID

_CONFIGMAPS = Resource("v1", "configmaps", "ConfigMap")
_PROGRESS_SECONDS = 10.0
_LONGEST_SETTLING = 600.0


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the namespace is removed
    jobs = plan(options.seed, options.jobs, [system.name for system in SYSTEMS])
    print(f"seed {options.seed}: {len(jobs)} jobs in {options.minutes:g} minutes", flush=True)
    with Environment(options.seed) as environment:
        soak = Soak(environment, jobs, options.minutes * 60, options.parallel)
        with Recorder(Api(environment.fixture.access), environment.namespace) as recorder:
            soak.run(recorder)
            if options.break_:
                _break(environment, recorder)
            objects = recorder.snapshot()
        problems = [*soak.errors, *judge.problems(soak.records, objects, time.time())]
        figures = {
            **judge.figures(soak.records, objects),
            "janitors": environment.janitors,
            "requests of launchers and janitors": len(environment.proxy.asked),
            "requests that met a fault": environment.faults,
        }
        if problems:
            print(f"The janitors printed:\n{environment.janitor_log()[-4000:]}")
    for what, number in figures.items():
        print(f"{number:>8}  {what}")
    print("\n".join(problems) or "Nothing was left behind, nothing was wrongly removed, no launcher was wrong.")
    if options.break_:
        return 0 if _both_found(problems) else 1
    if options.minutes >= page.FULL_MINUTES and len(jobs) >= page.FULL_JOBS:
        page.PAGE.write_text(page.page(options, soak.records, figures, problems))
    return 1 if problems else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="over which jobs are started; default: 20")
    parser.add_argument("--jobs", type=int, default=200, help="default: 200")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="of all that is random")
    parser.add_argument("--parallel", type=int, default=6, help="jobs at a time; default: 6")
    parser.add_argument("--break", dest="break_", action="store_true", help="check that the judge can fail")
    return parser


class Soak:
    """The jobs of a plan, being run.

    Attributes:
        records: What happened to the jobs that were started.
        errors: Failures of the soak itself.
    """

    def __init__(self, environment: Environment, jobs: Sequence[PlannedJob], seconds: float, parallel: int) -> None:
        self._environment, self._jobs = environment, jobs
        self._seconds, self._parallel = seconds, parallel
        self._began = time.monotonic()
        self._over = threading.Event()
        self.records: list[judge.JobRecord] = []
        self.errors: list[str] = []

    def run(self, recorder: Recorder) -> None:
        """Run all jobs, then wait until all that is to be removed is gone, or for ten minutes."""
        progress = threading.Thread(target=self._print_progress, args=(recorder,), daemon=True)
        progress.start()
        with concurrent.futures.ThreadPoolExecutor(self._parallel) as pool:
            list(pool.map(self._run, range(len(self._jobs))))
        self._settle(recorder)
        self._over.set()
        progress.join()

    def _run(self, number: int) -> None:
        start = self._began + number * self._seconds / len(self._jobs)
        time.sleep(max(0.0, start - time.monotonic()))
        job = JobRun(self._jobs[number], self._environment)
        self.records.append(job.record)
        try:
            job.run()
        except Exception as error:  # noqa: BLE001  the other jobs go on
            self.errors.append(f"{self._jobs[number].run} could not be run: {error!r}")

    def _settle(self, recorder: Recorder) -> None:
        end = time.monotonic() + _LONGEST_SETTLING
        while time.monotonic() < end:
            rest = judge.settled_at(self.records, recorder.snapshot(), time.time()) - time.time()
            if rest <= 0:
                return
            time.sleep(min(rest + 1, _PROGRESS_SECONDS))

    def _print_progress(self, recorder: Recorder) -> None:
        while not self._over.wait(_PROGRESS_SECONDS):
            minutes, seconds = divmod(round(time.monotonic() - self._began), 60)
            figures = judge.figures(list(self.records), list(recorder.objects.values()))
            print(
                f"{minutes:02}:{seconds:02}  {figures['jobs']}/{len(self._jobs)} jobs started, "
                f"{figures['launchers killed with SIGKILL']} launchers killed, "
                f"{figures['launchers stopped with SIGTERM']} stopped, {self._environment.janitors} janitors, "
                f"{self._environment.faults} faults, "
                f"{figures['objects that were to be kept, and are there']} objects there",
                flush=True,
            )


# --- --break

_ORPHAN = "soak-orphan"


def _break(environment: Environment, recorder: Recorder) -> None:
    """Leave an orphan, and remove a job that must be kept."""
    api, namespace = environment.fixture.api, environment.namespace
    labels = {**MANAGED_BY, RUN_ID: _ORPHAN}
    api.create(_CONFIGMAPS, namespace, {"metadata": {"name": _ORPHAN, "labels": labels}})
    objects = [item for item in recorder.snapshot() if item.role == "job" and item.gone is None]
    if not objects:
        raise SystemExit(f"no job is kept for {KEPT_SECONDS:.0f} s: choose more jobs, or another seed")
    path, _, kind = objects[0].kind.partition(" ")
    resource = next(
        system.resource for system in SYSTEMS if (system.resource.api, system.resource.kind) == (path, kind)
    )
    api.delete(resource, namespace, objects[0].name, objects[0].uid)
    time.sleep(5)


def _both_found(problems: Sequence[str]) -> bool:
    orphan = any(text.startswith("orphan: ") and _ORPHAN in text for text in problems)
    return orphan and any("wrongly removed" in text for text in problems)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
