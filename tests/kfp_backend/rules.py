"""Schedules on a back end, for some minutes, while what starts their runs is killed and users submit beside them."""

import collections
import datetime as dt
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from kfp import compiler

from tests.kfp_backend.backend import ENDED, Backend
from tests.kfp_backend.losses import one_replica

TFSTEPS = str(pathlib.Path(sys.executable).with_name("tfsteps"))
STARTS_RUNS = "app=ml-pipeline-scheduledworkflow"
JANITOR = "app.kubernetes.io/name=tfsteps-janitor"
_BEFORE = dt.timedelta(minutes=9)  # what `fill` catches up


class Rules:
    """Two schedules of one pipeline, manual runs of it, and what happens to them.

    `fill` catches up nine minutes, one run after another; `overlap` runs each minute, two at once. Two submitters
    create each, and change one.
    """

    def __init__(self, backend: Backend, minutes: int) -> None:
        self.backend, self.minutes, self.folder = backend, minutes, pathlib.Path(tempfile.mkdtemp())
        self.stem = f"{int(time.time()) % 100_000}"
        self.fill, self.overlap = f"fill-{self.stem}", f"overlap-{self.stem}"
        self.package = self.folder / "rules.yaml"
        compiler.Compiler().compile(one_replica(f"rules-{self.stem}"), str(self.package))
        text = self.package.read_text()
        for ours, there in backend.images.items():
            text = text.replace(ours, there)
        self.package.write_text(text)

    def cell(self) -> str:
        """Carry it out and say what became of each date."""
        start = dt.datetime.now(dt.UTC) - _BEFORE
        self._two_submitters(self.fill, f"cron: '*/2 * * * *'\nstart: {start:%Y-%m-%dT%H:%M:%SZ}\ncatch_up: true\n")
        self._two_submitters(self.overlap, "cron: '* * * * *'\nconcurrency: allow\nmax_active_runs: 2\n", "seconds=100")
        events: list[tuple[int, Callable[[], object]]] = [
            *((minute, self._manual) for minute in range(1, self.minutes - 1, 4)),
            *((minute, lambda: self._kill(STARTS_RUNS)) for minute in range(3, self.minutes, 4)),
            (4, lambda: self._kill(JANITOR)),
            (5, lambda: self._tfsteps("schedules", "pause", self.overlap)),
            (7, lambda: self._tfsteps("schedules", "resume", self.overlap)),
            (9, lambda: self._two_submitters(self.overlap, "cron: '*/2 * * * *'\n", "seconds=20")),
            (11, lambda: self._tfsteps("schedules", "run-now", self.fill)),
        ]
        began = time.monotonic()
        for minute, event in sorted(events, key=lambda item: item[0]):
            time.sleep(max(0.0, began + 60 * minute - time.monotonic()))
            event()
        time.sleep(max(0.0, began + 60 * self.minutes - time.monotonic()))
        for item in self._schedules():
            self._tfsteps("schedules", "pause", item["id"])
        self.backend.until(lambda: all(run.state in ENDED for run in self._runs()), 5.0)
        return self._judged()

    # --- events

    def _tfsteps(self, *words: str) -> str:
        ran = subprocess.run([TFSTEPS, *words], capture_output=True, text=True, check=False)
        print(f"{dt.datetime.now(dt.UTC):%H:%M:%S} {' '.join(map(str, words))}: {ran.returncode}", flush=True)
        print("".join(f"    {line}\n" for line in (ran.stdout + ran.stderr).splitlines()[-4:]), end="", flush=True)
        return ran.stdout

    def _two_submitters(self, name: str, schedule: str, *parameters: str) -> None:
        file = self.folder / f"{name}.schedule.yaml"
        file.write_text(schedule)
        command = [TFSTEPS, "submit", str(self.package), "--schedule", str(file), "--name", name, "--yes"]
        command += itertools.chain.from_iterable(("-p", item) for item in parameters)
        both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in "ab"]
        for process in both:
            output, _ = process.communicate()
            print(f"submit {name}: {process.returncode}\n    " + "\n    ".join(output.splitlines()[-4:]), flush=True)

    def _manual(self) -> None:
        self._tfsteps("submit", str(self.package), "--replace", "-p", "seconds=100")

    def _kill(self, selector: str) -> None:
        kubectl, namespace = self.backend.cluster.kubectl, self.backend.namespace
        print(kubectl("delete", "pod", "-n", namespace, "-l", selector, "--force", "--grace-period=0"), flush=True)

    # --- what came of it

    def _schedules(self) -> list[dict[str, Any]]:
        schedules = json.loads(self._tfsteps("schedules", "--output", "json"))
        return [item for item in schedules if item["name"] in (self.fill, self.overlap)]

    def _runs(self) -> list[Any]:
        """Return the runs of both schedules that the API knows."""
        ids = {item["id"] for item in self._schedules()}
        runs = self.backend.client.list_runs(page_size=100, sort_by="created_at desc").runs or []
        return [run for run in runs if run.recurring_run_id in ids]

    def _judged(self) -> str:
        names = {item["id"]: item["name"] for item in self._schedules()}
        dates = collections.Counter((names[run.recurring_run_id], run.scheduled_at) for run in self._runs())
        twice = [f"{name} {at:%H:%M}" for (name, at), count in dates.items() if count > 1]
        disturbed = [run.run_id for run in self._runs() if run.state != "SUCCEEDED"]
        filled = sorted(at for name, at in dates if name == self.fill)
        gaps = [f"{one:%H:%M}" for one, other in itertools.pairwise(filled) if other - one != dt.timedelta(minutes=2)]
        for identifier in names:
            print(self._tfsteps("schedules", "show", identifier), flush=True)
        return (
            f"{len(dates)} dates, {len(filled)} of {self.fill}; sent twice: {', '.join(twice) or 'none'}; "
            f"lost after: {', '.join(gaps) or 'none'}; not succeeded: {', '.join(disturbed) or 'none'}; "
            f"recurring runs: {len(names)} (3 expected)"
        )
