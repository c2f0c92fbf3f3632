"""What a launcher reads of a cluster from the first event of a job to its last: watches, pods, logs, metrics."""

import functools
import queue
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import PODS
from tfsteps.kube.threads import Inbox
from tfsteps.kube.watch import Changed, Listed, Refused, Seen, Watch
from tfsteps.runs.events import TICK_SECONDS, Event, JobChanged, LogLines, Tick, one_line
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes.follow.own_pods import OwnPods
from tfsteps.systems.kubernetes.follow.pod_logs import Drain, PodLogs
from tfsteps.systems.kubernetes.follow.tracker import Tracker
from tfsteps.systems.kubernetes.follow.usage import PodUsage
from tfsteps.systems.kubernetes.follow.warning_events import WarningEvents
from tfsteps.systems.kubernetes.job_kind import JobKind
from tfsteps.systems.kubernetes.ownership import OwnerIndex
from tfsteps.systems.kubernetes.times import by_age
from tfsteps.systems.stop_controller import StopController


class PodFollower:
    """Passes on what happens to a job's own pods, reads their logs and labels them.

    Attributes:
        own: Which pods are the job's.
        logs: Their logs.
        known: Whether pods were seen, or the reason why not was reported.
        warnings: For the user.
    """

    def __init__(self, api: Api, urgent: Api, kind: JobKind, tracker: Tracker, inbox: Inbox) -> None:
        """Begin without a pod.

        Args:
            api: The cluster.
            urgent: The cluster, for requests that must not wait.
            kind: The job's.
            tracker: The job's.
            inbox: Gets what the threads of the logs have read.
        """
        self._name, self._namespace = tracker.object.name, tracker.object.namespace
        self._urgent, self._kind, self._tracker = urgent, kind, tracker
        self.own = OwnPods(kind, OwnerIndex(urgent, self._namespace, self._name))
        self.logs = PodLogs(api, self._namespace, kind.container, inbox.put)
        self.known = False
        self.warnings: list[str] = []

    def saw(self, seen: Seen, now: float) -> Iterator[Event]:
        """Yield what follows from an event of the watch on the pods. LaunchError if an answer is not understood."""
        if isinstance(seen, Refused):
            if not seen.status:
                raise LaunchError(f"{self._name} continues, but {seen.error}", retryable=True)
            yield from self.not_known(seen.error)
        self.known = True
        if (own := self.own.among(seen, self._tracker.object.item)) is None:
            return
        yield from self._tracker.seen_pod(own, now)
        items = own.items if isinstance(own, Listed) else [own.item] if isinstance(own, Changed) else []
        for item in items:  # only changed pods, for speed with a thousand replicas
            if pod := self._tracker.pods.get(item["metadata"]["uid"]):
                self.logs.read(pod, self._tracker.replica(pod.uid), ended=self._tracker.final is not None)
            self._label(item["metadata"])
        if not isinstance(own, Changed):
            self.logs.forget(self._tracker.pods)

    def not_known(self, why: str) -> Iterator[Event]:
        """Yield for each replica that its log cannot be read before the end."""
        for replica in self._tracker.replicas:
            yield one_line(time.time(), replica, f"(no log before the end: {why})".encode())

    def _label(self, pod: Mapping[str, Any]) -> None:
        """Add the tfsteps labels that a pod lacks: some operators do not copy them."""
        if pod["uid"] not in self._tracker.pods or "deletionTimestamp" in pod:
            return
        labels = self._kind.pod_labels(self._tracker.object.item, self._tracker.replica(pod["uid"]))
        if labels.items() <= (pod.get("labels") or {}).items():
            return
        try:
            self._urgent.patch(PODS, self._namespace, pod["name"], {"metadata": {"uid": pod["uid"], "labels": labels}})
        except ApiError as error:
            warning = f"The pods do not get the labels of the run: {error}"
            if error.status not in (404, 409) and warning not in self.warnings:  # 404, 409: it is gone or replaced
                self.warnings.append(warning)


class Following:
    """The watches of a job, and what they bring.

    Attributes:
        pods: What follows the pods.
    """

    def __init__(self, api: Api, urgent: Api, kind: JobKind, tracker: Tracker, created: float) -> None:
        """Start the watches and the samples of usage.

        Args:
            api: The cluster.
            urgent: The cluster, for requests that must not wait.
            kind: The job's.
            tracker: The job's.
            created: When the job was created, in seconds since the epoch: earlier warnings are not about it.
        """
        name, namespace = tracker.object.name, tracker.object.namespace
        self._urgent, self._kind, self._tracker = urgent, kind, tracker
        self._queue = Inbox()  # log readers wait while it is full, to limit memory
        self._tick_due = 0.0
        self.pods = PodFollower(api, urgent, kind, tracker, self._queue)
        self._complaints = WarningEvents(urgent, namespace, name, created)
        self._usage = PodUsage(api, namespace, name, kind, tracker, put=self._put)
        put_job, put_pods = functools.partial(self._put, tracker.job), functools.partial(self._put, self.pods.saw)
        selected: dict[str, Any] = kind.watch_selector(name)
        self._job_watch = Watch(api, kind.resource, namespace, put_job, sought=(name, tracker.object.uid), **selected)
        self._pod_watch = Watch(api, PODS, namespace, put_pods, labelSelector=kind.selector(name))
        self._usage.start()

    def _put(self, handler: Callable[..., Iterator[Event]], *what: Any) -> None:
        self._queue.put((handler, what))

    def next(self) -> Iterator[Event]:
        """Yield what follows from the next watch event or log line, and a Tick when it is due."""
        try:
            handler, what = self._queue.get(timeout=TICK_SECONDS)
        except queue.Empty:
            yield from self._tracker.state(time.time())
        else:
            yield from handler(*what, time.time())
        if time.monotonic() >= self._tick_due:
            self._tick_due = time.monotonic() + TICK_SECONDS
            for seen in self.pods.own.decided(self._tracker.object.item):
                yield from self.pods.saw(seen, time.time())
            watched = self._job_watch.connected and self._pod_watch.connected
            yield Tick(
                time.time(),
                visible=watched and not self.pods.own.complaint,
                readable=not self.pods.logs.failing(self._tracker.pods),
            )

    def explain_missing(self) -> None:
        """Tell the tracker why pods are missing, as far as that is known."""
        self._tracker.complaint = self.pods.own.complaint or self._complaints.look(self._tracker.is_short)

    def end(self) -> None:
        """Sample no usage any more."""
        self._usage.end()

    def drain(self, stop: StopController) -> Iterator[Event]:
        """Yield how the replicas ended and all their last lines; do not wait for replicas that still run."""
        pods, logs, tracker = self.pods, self.pods.logs, self._tracker
        drain = Drain(logs, lambda: bool(stop.cause or stop.requests))
        vanished = yield from self._last_look()
        while not pods.known and not drain.over and not stop.repeated:
            yield from (event for event in self.next() if not isinstance(event, JobChanged))
        if not pods.known:
            yield from pods.not_known(self._pod_watch.error or "its pods were not listed in time")
        logs.end(tracker.pods)
        ended = {tracker.replica(pod.uid) for pod in tracker.pods.values() if pod.program_ended}
        while self._more_is_coming(vanished) and not drain.over and not stop.repeated:
            for event in self.next():
                if not isinstance(event, JobChanged):
                    yield event
                if isinstance(event, LogLines) and event.replica in ended and not event.sidecar:
                    drain.line_came()  # after the yield: the consumer may be slow
        if not stop.repeated:
            yield from logs.gaps(ended, drain.missing)
        pods.warnings += logs.warnings()
        if complaint := pods.own.complaint:
            pods.warnings.append(complaint.message)

    def _more_is_coming(self, vanished: set[str]) -> bool:
        unexplained = vanished & self._tracker.pods.keys() or self._tracker.unexplained
        return bool(self.pods.logs.unread or not self._queue.empty() or unexplained)

    def _last_look(self) -> Generator[Event, None, set[str]]:
        """Yield the current state of the pods: the end of the job may be seen before theirs.

        Only the watch reports how pods ended that are already gone; return their uids.
        """
        known, selector = self._tracker.object, self._kind.selector(self._tracker.object.name)
        try:
            listing = self._urgent.list(PODS, known.namespace, once=True, labelSelector=selector)
        except ApiError:
            return set()  # the events of the watch must suffice
        listed = by_age(listing["items"] or [])
        self.pods.known = self._tracker.listed = True
        vanished = self._tracker.pods.keys() - {item["metadata"]["uid"] for item in listed}
        for item in listed:
            yield from self.pods.saw(Changed(item), time.time())
        return vanished
