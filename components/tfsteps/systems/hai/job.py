"""A task of HAI, from its creation on: its events, its logs, its end. One loop that asks, and never too often."""

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from tfsteps.cluster import access
from tfsteps.cluster.answers import MALFORMED
from tfsteps.cluster.api import PATIENCE_SECONDS, Api
from tfsteps.cluster.errors import ApiError
from tfsteps.spec import TrainingJob
from tfsteps.systems.base import (
    TICK_SECONDS,
    Cause,
    Event,
    LaunchError,
    LogLines,
    PartialLine,
    Replica,
    State,
    Tick,
    one_line,
)
from tfsteps.systems.hai.client import Client
from tfsteps.systems.hai.logs import RankLog
from tfsteps.systems.hai.schema import PAUSED, labels, replicas
from tfsteps.systems.hai.tracker import Tracker
from tfsteps.systems.kubernetes.host import Host
from tfsteps.systems.kubernetes.kind import Verdict

TASK_SECONDS = (0.5, 5.0)
"""Shortest and longest time between two questions for the task."""

LOG_SECONDS = (1.0, 15.0)
"""The same for the log of one rank."""

_SLOWER = 1.5  # the next pause over the last one, when nothing is new
_RANKS_AT_ONCE = 4  # so many logs may be asked for at the shortest pause; more ranks share that rate
_AWAY_SECONDS = 15.0  # the longest pause while the platform does not answer
_STOP_AGAIN_SECONDS = 5.0
_GONE_SECONDS = 10.0  # for which the platform must know no such task before that is believed
_DENIED_SECONDS = 20.0  # for which a stop that is denied is tried again: a pod that ends has half a minute to say so
_URGENT_SECONDS = 3.0  # for an answer to the stop: the next signal is heard only then
_ROUNDING_SECONDS = 2.0  # the platform tells its time in whole seconds
_LAST_READS = 20
_NO_TASK = 401  # what HAI answers who asks for the log of a task that it does not know


class _Poll:
    """A question that is asked again and again: soon when there was news, later and later when there was none."""

    def __init__(self, ask: Callable[[], Iterator[Event]], shortest: float, longest: float) -> None:
        self.ask = ask
        self.due = 0.0
        self._shortest, self._longest = shortest, longest
        self._pause = shortest

    def next(self, *, news: bool) -> None:
        self._pause = self._shortest if news else min(self._pause * _SLOWER, self._longest)
        self.due = time.monotonic() + self._pause

    def soon(self) -> None:
        self._pause = self._shortest
        self.due = min(self.due, time.monotonic() + self._pause)

    def later(self, seconds: float) -> None:
        self.due = max(self.due, time.monotonic() + seconds)


class HaiJob:
    """A task that was created or adopted.

    Attributes:
        name: The task's name.
        uid: Its chain's id, the same over interruptions.
        namespace: Empty.
        created: When it was created, in seconds since the epoch, by the platform's clock where it tells the time.
    """

    namespace = ""

    def __init__(
        self, client: Client, job: TrainingJob, *, name: str, chain_id: str, created: float, host: Host | None
    ) -> None:
        """Take over the task; nothing is asked before `events`. `host` is our pod, if we are in one."""
        self.name, self.uid, self.created = name, chain_id, created
        self.warnings = host.warnings if host else []
        self.tensorboard_url = ""
        self._began = time.monotonic()
        self._age: float | None = None
        self._client = client
        self._urgent = Client(client.access, patience=0, read_seconds=_URGENT_SECONDS)
        # The signal handler's own, used by nothing else: it may come while we hold a lock of another client's pool.
        self._in_handler = Client(client.access, patience=0, read_seconds=_URGENT_SECONDS)
        self._host = host
        if host:
            self._cluster = Api(access.find(), patience=0, read_seconds=_URGENT_SECONDS)
        self._replicas = replicas(job)
        self._logs = [RankLog() for _ in self._replicas]
        self._tracker = Tracker(self._replicas)
        self._task: Mapping[str, Any] | None = None
        self._requests = 0  # to stop, from people and engines
        self._cause: Cause | None = None
        self._asked = 0.0  # when the stop was asked for last
        self._denied = ""  # why it may not be stopped
        self._denied_since: float | None = None
        self._gone_since: float | None = None  # since when the platform has known no such task
        self._left = False
        self._tick_due = 0.0
        self._away = 0.0  # since when the platform has not answered; 0 = it does

    @property
    def age(self) -> float:
        """Seconds that the task existed before it was followed, by the platform's clock alone; 0 until known."""
        if self._age is None and (now := self._client.server_time()) is not None:
            before = now - self.created - (time.monotonic() - self._began)
            self._age = max(0.0, before - _ROUNDING_SECONDS)
        return self._age or 0.0

    def events(self) -> Iterator[Event]:
        """Yield what happens, in order; the last is a JobChanged to a terminal state.

        Raises:
            LaunchError: The platform has not answered, or has refused to, for too long.
        """
        try:
            yield from self._followed()
        except MALFORMED as error:
            said = f"task {self.name} goes on, but an answer of HAI is not understood: {error!r}"
            raise LaunchError(said, retryable=True) from error

    def _followed(self) -> Iterator[Event]:
        polls = self._polls()
        while not self._tracker.final:
            self._look_after()
            poll = min(polls, key=lambda each: each.due)
            pause = min(poll.due - time.monotonic(), TICK_SECONDS)
            if pause > 0:
                time.sleep(pause)
            else:
                yield from self._ask(poll, polls)
            if time.monotonic() >= self._tick_due:
                self._tick_due = time.monotonic() + TICK_SECONDS
                yield Tick(time.time(), visible=not self._away)
        if not self._hurried:
            yield from self._drain()
        yield from self._tracker.ended(self._task, time.time())
        yield self._tracker.last()

    def stop(self, cause: Cause) -> None:
        """Ask the platform to stop the task, and return. Asked again, hurry. Safe in a signal handler."""
        self._requests += cause is Cause.CANCELLED
        if self._hurried:
            message = f"its end was not waited for; chain {self.uid} may take some seconds to end"
            self._tracker.give_up(Verdict(State.CANCELLED, "Stopped", message), time.time())
        elif self._cause is None and not self._tracker.final:
            if cause is Cause.CANCELLED and self._host and self._host.leaves_job(self._cluster):
                self._left = True
                return
            self._end(self._in_handler if cause is Cause.CANCELLED else self._urgent, cause)

    def read_folder(self, folder: str, program: Sequence[str]) -> None:
        """Do nothing: what a launcher mounts of the shared file system is all that it can read."""

    def remove(self, what: Literal["pods", "job"]) -> None:
        """Do nothing: the platform has removed the pods, and its record of the task cannot be removed."""

    @property
    def _hurried(self) -> bool:
        return self._requests > 1

    # --- asking

    def _polls(self) -> list[_Poll]:
        shortest = max(1.0, len(self._replicas) / _RANKS_AT_ONCE) * LOG_SECONDS[0]
        logs = [
            _Poll(functools.partial(self._read_log, rank), shortest, max(shortest, LOG_SECONDS[1]))
            for rank in range(len(self._replicas))
        ]
        return [_Poll(self._look, *TASK_SECONDS), *logs]

    def _ask(self, poll: _Poll, polls: list[_Poll]) -> Iterator[Event]:
        """Yield what an answer says; wait with all questions while there is none."""
        news = changed = False
        try:
            for event in poll.ask():
                news, changed = True, changed or not isinstance(event, LogLines | PartialLine)
                yield event
        except ApiError as error:
            if error.status == _NO_TASK and poll is not polls[0]:  # the task itself is asked for next, and tells more
                poll.next(news=False)
                return
            self._away = self._away or time.monotonic()
            away = time.monotonic() - self._away
            if away > PATIENCE_SECONDS:
                raise LaunchError(f"task {self.name} goes on, and {error}", retryable=True) from error
            for each in polls:
                each.later(max(error.retry_after, min(1.0 + away / 4, _AWAY_SECONDS)))
        else:
            self._away = 0.0
            poll.next(news=news)
            for each in polls if changed else ():  # one change seldom comes alone
                each.soon()

    def _look(self) -> Iterator[Event]:
        found, now = self._client.query_once(self.uid), time.monotonic()
        self._gone_since = (self._gone_since or now) if found is None else None
        if self._gone_since and now - self._gone_since < _GONE_SECONDS:
            return  # what fails on the platform is answered like a task that it does not know
        self._task = found
        yield from self._tracker.task(found, time.time())

    def _read_log(self, rank: int, *, whole: bool = False) -> Iterator[Event]:
        log, replica = self._logs[rank], self._replicas[rank]
        answer = self._client.log_once(self.uid, rank, log.last_seen)
        before = log.rest
        yield from self._lines(replica, log.read(answer, whole=whole))
        if log.rest and log.rest != before:
            yield PartialLine.of(time.time(), replica, log.rest)

    def _lines(self, replica: Replica, found: Iterator[bytes | dict[str, Any]]) -> Iterator[Event]:
        now = time.time()
        for each in found:
            if isinstance(each, bytes):
                yield LogLines(now, replica, [each], incarnation=self._tracker.incarnation(replica))
            else:
                yield from self._tracker.told(replica, each, now)

    def _drain(self) -> Iterator[Event]:
        """Yield what the ranks printed last; for one whose log cannot be read, that."""
        for rank, replica in enumerate(self._replicas):
            try:
                for _ in range(_LAST_READS):
                    found = list(self._read_log(rank, whole=True))
                    yield from found
                    if not found:
                        break
            except ApiError as error:
                yield one_line(time.time(), replica, f"(log incomplete: {error})".encode())

    # --- ending

    def _look_after(self) -> None:
        """Do what is due: leave, stop with the Workflow, ask for the stop again."""
        if self._left:
            raise LaunchError(
                "this pod is being evicted; the task goes on, and the next attempt adopts it", retryable=True
            )
        if self._host and self._host.failure:
            raise LaunchError(f"task {self.name} goes on, but {self._host.failure}", retryable=True)
        if self._denied_since and time.monotonic() - self._denied_since > _DENIED_SECONDS:
            raise LaunchError(f"task {self.name} goes on, for it could not be stopped: {self._denied}", retryable=True)
        if self._cause:
            if time.monotonic() - self._asked > _STOP_AGAIN_SECONDS:
                self._ask_to_stop(self._urgent)
        elif self._host and self._host.terminating:
            self._end(self._urgent, Cause.CANCELLED)

    def _end(self, client: Client, cause: Cause) -> None:
        self._cause = cause
        self._tracker.stopping = Verdict(State.CANCELLED, "Stopped")
        self._ask_to_stop(client)

    def _ask_to_stop(self, client: Client) -> None:
        self._asked, denied = time.monotonic(), ""
        try:
            if PAUSED in labels(self._task or {}):  # it is stopped already, and nobody is to let it go on
                client.tag(self.uid, PAUSED, on=False)
            client.stop_once(self.uid)
        except ApiError as error:
            denied = "" if error.unavailable else str(error)
        self._asked = time.monotonic()  # `_look_after` tries again
        self._denied, since = denied, self._denied_since or self._asked
        self._denied_since = since if denied else None
