"""Samples what the pods of a job use, by the cluster's metrics API, beside the code that follows the job."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from tfsteps import typed_json
from tfsteps.kube.answers import MALFORMED, of_kind
from tfsteps.kube.backoff import pauses, spread
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.runs.events import ReplicaState, UsageSampled
from tfsteps.runs.usage import Sample
from tfsteps.spec.units import parse_duration
from tfsteps.systems.kubernetes.follow.tracker import Tracker
from tfsteps.systems.kubernetes.job_kind import JobKind
from tfsteps.systems.kubernetes.permissions import POD_METRICS
from tfsteps.systems.kubernetes.preflight.findings import quantity
from tfsteps.systems.kubernetes.times import seconds
from tfsteps.systems.usage_interval import usage_interval

_FIRST_SECONDS = 30.0  # for jobs of a minute or two
_SECONDS = 60.0  # spread to 40 to 80 s: 1,000 running jobs cost the API server 17 requests/s, and 3 after hours
_SPREAD = 1 / 3
_LEAST = 22.5  # the metrics server itself measures every 15 s
_GROWTH, _LONGEST = 30, 300.0  # a job of some age is sampled after a thirtieth of it, at least every 5 minutes
_FIRST_PAUSE, _LONGEST_PAUSE = 60.0, 1800.0  # while the API is unavailable
_REFUSED_PAUSE = 3600.0  # if the cluster does not serve the API, or refuses
_REFUSALS = {401, 403, 404, 405, 406}
_FAILURES = 3  # before the note that the API is unavailable
_READ_SECONDS = 10.0
_WINDOW = 15.0  # if the API reports none

Put = Callable[[Callable[..., Iterator[UsageSampled]], Any], None]
"""Puts a handler and its argument on the queue of the job's loop."""


class _Listing(msgspec.Struct):
    items: list[dict[str, Any]] | None


class PodUsage:
    """The usage of one job's pods. It never fails or delays the job: without the metrics API there is one note."""

    def __init__(self, api: Api, namespace: str, name: str, kind: JobKind, tracker: Tracker, *, put: Put) -> None:
        """Start the thread, unless no usage is to be sampled.

        Args:
            api: The cluster.
            namespace: The job's.
            name: The job's.
            kind: The job's.
            tracker: Knows the job's pods.
            put: Is called in the thread.
        """
        self._api = api.copy(2 * _READ_SECONDS)
        self._path, self._selector = POD_METRICS.path(namespace), kind.selector(name)
        self._program, self._tracker, self._put = kind.container, tracker, put
        interval = usage_interval(_SECONDS)[0]
        self._interval = interval and max(interval, _LEAST)
        self._ended = threading.Event()
        self._answered = self._noted = False
        self._last: dict[tuple[str, str], float] = {}  # by pod and container: the time of the last sample
        if self._interval:
            threading.Thread(target=self._run, name="usage", daemon=True).start()

    def end(self) -> None:
        """Stop sampling."""
        self._ended.set()

    # --- the thread

    def _run(self) -> None:
        began, failures, wait = time.monotonic(), 0, pauses(_FIRST_PAUSE, _LONGEST_PAUSE)
        pause = min(self._interval, _FIRST_SECONDS)
        while not self._ended.wait(spread(pause, _SPREAD)):
            pause = max(self._interval, min((time.monotonic() - began) / _GROWTH, _LONGEST))
            if not any(pod.state is ReplicaState.RUNNING for pod in list(self._tracker.pods.values())):
                continue
            try:
                listing = self._api.send(
                    "GET", self._path, {"labelSelector": self._selector}, check=of_kind("PodMetricsList", _Listing)
                )
            except ApiError as error:
                failures += 1
                if error.status in _REFUSALS and not self._answered:
                    pause = _REFUSED_PAUSE
                    self._note(error)
                else:
                    pause = max(next(wait), error.retry_after)
                    if failures >= _FAILURES:
                        self._note(error)
            else:
                self._answered, failures, wait = True, 0, pauses(_FIRST_PAUSE, _LONGEST_PAUSE)
                self._put(self._samples, listing["items"] or [])

    def _note(self, error: ApiError) -> None:
        if self._noted:
            return
        self._noted = True
        reason = f"the metrics API does not answer: {error}"
        if error.status == 404:
            reason = f"the cluster does not serve {POD_METRICS.api}; usually metrics-server does"
        elif error.status == 403:
            reason = "the launcher may not list pods.metrics.k8s.io; see what `tfsteps role` prints"
        self._put(_noted, f"CPU and memory over time are not known: {reason}.")

    # --- in the main loop

    def _samples(self, items: list[Mapping[str, Any]], _now: float) -> Iterator[UsageSampled]:
        """Yield the samples that are new. Pods that the job does not have, or no longer, are left out."""
        replicas = {pod.name: str(self._tracker.replica(uid)) for uid, pod in self._tracker.pods.items()}
        last, self._last = self._last, {}
        samples = []
        for item in items:
            try:
                read = list(_read(item, replicas, self._program))
            except (*MALFORMED, ArithmeticError):
                continue  # one odd item must not hide the others
            for sample in read:
                before = last.get(sample.source)
                self._last[sample.source] = max(sample.at, before or 0.0)
                if before is None:
                    samples.append(sample)
                elif sample.at > before:
                    samples.append(msgspec.structs.replace(sample, period=round(sample.at - before, 1)))
        if samples:
            yield UsageSampled(samples)


def _noted(text: str, _now: float) -> Iterator[UsageSampled]:
    yield UsageSampled(note=text)


def _read(item: Mapping[str, Any], replicas: Mapping[str, str], program: str) -> Iterator[Sample]:
    """Yield one sample for each container of a PodMetrics object.

    One of MALFORMED, or an ArithmeticError, if it has another shape.
    """
    replica, at = replicas.get(item["metadata"]["name"]), seconds(item["timestamp"])
    if replica is None or at is None:
        return
    window = _WINDOW
    with contextlib.suppress(KeyError, ValueError):
        window = parse_duration(item["window"])
    for container in item["containers"]:
        usage = container["usage"]
        sample = Sample(
            at=at,
            window=round(window, 1),
            replica=replica,
            container="" if container["name"] == program else container["name"],
            cpu=round(float(quantity(usage["cpu"])), 4),
            memory=round(float(quantity(usage["memory"]))),
        )
        yield typed_json.convert(msgspec.to_builtins(sample), Sample)  # checks the limits
