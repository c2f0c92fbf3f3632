"""How a launcher ends a job on a platform: it repeats the request until the job ends or refusal lasts too long.

A launcher in a pod that gets SIGTERM first finds out whether the job goes on without it.
"""

import math
import time
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from tfsteps.answer import Answer, unknown
from tfsteps.kube.errors import ApiError
from tfsteps.systems.base import Cause, LaunchError
from tfsteps.systems.pipeline import PipelineContext

_AGAIN_SECONDS = 5.0
_SIGNAL_SECONDS = 5.0
"""In which SIGTERM follows the beginning of the pod's deletion. One that does not is lost: Linux drops it if the first
process of the container does not handle it yet, and Argo's executor if it has another signal to pass on [source: Argo
4.0.5, `cmd/argoexec/commands/emissary.go`: `signal.Notify` with room for one]. The kubelet kills the launcher later."""
_REPORT_SECONDS = 5.0  # what a launcher needs to write its records before it is killed
_PAUSE_SECONDS = 1.0  # between two questions whether the job goes on
_DENIALS = {401, 403}  # a restarting server sends them, too, but not for long


class Clients(NamedTuple):
    """Clients that send each request once.

    Attributes:
        platform: Asks the platform to end the job.
        cluster: Asks what becomes of the job; None = the launcher is in no pod.
    """

    platform: Any
    cluster: Any


class Detachment(msgspec.Struct, frozen=True):
    """Whether a job goes on without its launcher, which detaches from it then.

    Attributes:
        answer: Yes = it goes on; no = it is to be stopped.
        sentence: For yes, what follows for the job; for no, why it does not go on; empty = there is nothing to say.
    """

    answer: Answer
    sentence: str = ""


class Stoppable(Protocol):
    """A job that a `StopController` ends."""

    what: str
    """The job in messages: `TFJob ml/mnist`."""

    refused: str
    """What a stop that the platform does not accept means: `it could not be deleted`."""

    def send_stop(self, client: Any) -> None:
        """Ask the platform once to end the job. ApiError if it denies that, or does not answer."""

    def begin_stop(self, sentence: str) -> None:
        """Note that the job's end is a stop from now on; `sentence` says why, empty = there is nothing to say."""

    def detach(self, cluster: Any, since: float) -> Detachment:
        """Detach from the job if it can go on without this launcher, and return whether it does.

        `since` = seconds since SIGTERM, or its notice.
        """

    @property
    def ends_with_launcher(self) -> bool:
        """Whether it is known, without a request, that the job is to be stopped after SIGTERM."""

    def give_up(self) -> None:
        """Wait for the job's end no longer."""

    @property
    def ended(self) -> bool:
        """Whether the job has ended."""


class _Detaching(msgspec.Struct):
    """The launcher got SIGTERM, or will, and the job may go on. Times are those of the monotonic clock."""

    began: float
    asked: float
    detachment: Detachment
    """The last answer."""

    signal_due: float = math.inf
    """When SIGTERM is taken for lost."""

    killed: float = math.inf
    """When this process will be killed; infinite = not known."""


class _Stopping(msgspec.Struct):
    """The platform was asked to end the job. Times are those of the monotonic clock."""

    cause: Cause
    killed: float = math.inf
    """As for `_Detaching`."""

    sent: float = 0.0
    error: ApiError | None = None
    """Of the last request."""

    failing_since: float = math.inf
    denied_since: float = math.inf


class StopController:
    """What becomes of a job that is being stopped: a signal handler begins it, and the launcher's loop goes on with it.

    The clients of the signal handler must be used by nothing else.

    Attributes:
        requests: How often people or engines have asked for it.
    """

    def __init__(self, job: Stoppable, denied_seconds: Mapping[Cause, float], grace_seconds: float | None) -> None:
        """Begin without a stop.

        Args:
            job: The job.
            denied_seconds: For how long a denied stop is retried, by its cause: permissions may come late.
            grace_seconds: Of the launcher's pod, after which this process is killed; None = it is in no pod.
        """
        self.requests = 0
        self._job, self._denied_seconds = job, denied_seconds
        self._in_pod = grace_seconds is not None
        self._grace_seconds = math.inf if grace_seconds is None else grace_seconds
        self._phase: _Detaching | _Stopping | None = None  # None = nothing has asked for a stop
        self._expected: _Detaching | None = None  # None = the launcher's pod is not being deleted, as far as is known

    @property
    def cause(self) -> Cause | None:
        """Why the job is being stopped; None = it is not."""
        return self._phase.cause if isinstance(self._phase, _Stopping) else None

    @property
    def repeated(self) -> bool:
        """Whether the stop was asked for more than once: its end is not waited for."""
        return self.requests > 1

    @property
    def detaching(self) -> bool:
        """Whether the launcher got SIGTERM, or will, and this has not ended it or its job yet."""
        return isinstance(self._phase or self._expected, _Detaching) and not self._job.ended

    def request(self, cause: Cause, clients: Clients) -> None:
        """Stop the job, unless it goes on without this launcher. Safe in a signal handler.

        After SIGTERM in a pod (`CANCELLED`), it is asked first whether the job goes on.
        """
        self.requests += cause.requested
        if self.detaching and cause is Cause.CANCELLED:
            # Engines repeat SIGTERM, and the first second does not show yet whether the pod is being evicted.
            if self._job.ends_with_launcher:
                self.begin(cause, clients)
        elif self.repeated and not self.detaching:
            self._job.give_up()
        elif self.cause is None and not self._job.ended:
            sentence = ""
            if cause is Cause.CANCELLED and self._in_pod:
                began = time.monotonic()
                detachment = self._job.detach(clients.cluster, 0.0)
                if not detachment.answer.no:
                    self._phase = _Detaching(began, began, detachment)
                    return
                sentence = detachment.sentence
            self.begin(Cause.CANCELLED if cause.requested else cause, clients, sentence)

    def expect(self, clients: Clients, seconds_left: float) -> None:
        """Settle what becomes of the job at the SIGTERM that will come: the launcher's pod is being deleted.

        Called from a thread of its own, which the signal does not interrupt. `seconds_left` = until it is killed.
        """
        if self._phase is None and not self._job.ended:
            began = time.monotonic()
            due, killed = began + min(_SIGNAL_SECONDS, seconds_left / 2), began + (seconds_left or math.inf)
            not_yet = Detachment(unknown("the answers have not come yet"))
            self._expected = expected = _Detaching(began, began, not_yet, due, killed)
            expected.detachment = self._job.detach(clients.cluster, 0.0)

    def begin(self, cause: Cause, clients: Clients, sentence: str = "") -> None:
        """Stop the job for a cause. Safe in a signal handler."""
        self._job.begin_stop(sentence)
        self._phase = stopping = _Stopping(cause, self._expected.killed if self._expected else math.inf)
        self._ask(stopping, clients)

    def continue_stop(self, clients: Clients, pipeline: PipelineContext | None) -> None:
        """Do what is due: settle what becomes of the job, ask again for its end, stop it with its run.

        `pipeline` is the launcher's; None = it is in none.

        Raises:
            LaunchError: The job goes on and this launcher ends, or its end was not accepted for too long.
        """
        if pipeline and pipeline.failure:
            raise LaunchError(f"{self._job.what} was not stopped, but {pipeline.failure}", retryable=True)
        match self._phase or self._expected:
            case _Detaching() as detaching if not self._job.ended:
                if pipeline and pipeline.terminating.yes:
                    self.begin(Cause.CANCELLED, clients)
                else:
                    self._settle(detaching, clients)
            case _Stopping() as stopping:
                now, grace = time.monotonic(), self._grace_seconds if stopping.cause is Cause.CANCELLED else math.inf
                denied = now - stopping.denied_since > self._denied_seconds[stopping.cause]
                soon_killed = stopping.error and now > stopping.killed - _REPORT_SECONDS
                if denied or now - stopping.failing_since > grace or soon_killed:
                    why = f"{self._job.refused}: {stopping.error}"
                    what = f"{self._job.what} was not stopped"
                    if not denied:  # without an answer, the platform may have ended it
                        what = f"whether {self._job.what} was stopped is not known"
                    raise LaunchError(f"{what}: {why}", retryable=True)
                if now - stopping.sent > _AGAIN_SECONDS:
                    self._ask(stopping, clients)
            case _ if pipeline and pipeline.terminating.yes:
                self.begin(Cause.CANCELLED, clients)

    def _settle(self, detaching: _Detaching, clients: Clients) -> None:
        """Ask again when that is due, and stop the job if it does not go on. LaunchError if it does."""
        now = time.monotonic()
        if detaching.detachment.answer.unknown and now - detaching.asked >= _PAUSE_SECONDS:
            detaching.detachment = self._job.detach(clients.cluster, now - detaching.began)
            detaching.asked = time.monotonic()
        answer = detaching.detachment.answer
        seconds = min(self._grace_seconds, _PAUSE_SECONDS) if self.repeated else self._grace_seconds
        late = now - detaching.began >= seconds
        if not self.requests and now < detaching.signal_due:
            return  # it is SIGTERM that ends a launcher: engines decide by how a step ends
        if answer.no:
            why = "" if self.requests else "The launcher's pod is being deleted, and SIGTERM did not come."
            self.begin(Cause.CANCELLED, clients, detaching.detachment.sentence or why)
        elif answer.yes:
            raise LaunchError(f"this pod is being evicted; {detaching.detachment.sentence}", retryable=True)
        elif late:
            ends = "got SIGTERM" if self.requests else "is being deleted"
            why = f"whether it is being evicted, and another pod follows, is not known ({answer.why})"
            raise LaunchError(f"this pod {ends}, and {why}: {self._job.what} was not stopped", retryable=True)

    def _ask(self, stopping: _Stopping, clients: Clients) -> None:
        stopping.sent = time.monotonic()  # for the loop, which a signal handler may have interrupted
        try:
            self._job.send_stop(clients.platform)
            stopping.error = None
        except ApiError as error:
            stopping.error = error
        stopping.sent = time.monotonic()
        denied = stopping.error and (stopping.error.status in _DENIALS or not stopping.error.unavailable)
        stopping.failing_since = min(stopping.failing_since, stopping.sent) if stopping.error else math.inf
        stopping.denied_since = min(stopping.denied_since, stopping.sent) if denied else math.inf
