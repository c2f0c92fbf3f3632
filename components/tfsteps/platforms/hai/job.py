"""Follows a task of HAI: its events, its logs, its end. It is asked at limited rates."""

import contextlib
import functools
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from tfsteps.answer import NO
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.http_client import PATIENCE_SECONDS
from tfsteps.platforms.hai.client import Client
from tfsteps.platforms.hai.logs import LATE_SECONDS, Ask, Entry, RankLog, Seen, event_time, gaps
from tfsteps.platforms.hai.schema import PAUSED, labels
from tfsteps.platforms.hai.tracker import ChainTracker
from tfsteps.runs.events import (
    TICK_SECONDS,
    Event,
    JobChanged,
    LogLines,
    PartialLine,
    ReplicaName,
    State,
    Tick,
    one_line,
)
from tfsteps.spec import format_duration
from tfsteps.systems.base import Cause, LaunchError
from tfsteps.systems.followed_job import FollowedJob
from tfsteps.systems.launcher_pod import LauncherPod
from tfsteps.systems.stop_controller import Clients, Detachment, StopController

TASK_SECONDS = (0.5, 5.0)
"""Shortest and longest pause between two requests for the task."""

LOG_SECONDS = (1.0, 15.0)
"""The same for the log of one rank."""

_SLOWER = 1.5  # factor of the next pause if nothing is new
_RANKS_AT_ONCE = 4  # number of logs polled at the shortest pause; more ranks share that rate
_NOTICE_SECONDS = 15.0  # until it is reported that the platform does not answer
_AWAY_SECONDS = 15.0  # the longest pause while the platform does not answer
_GONE_SECONDS = 10.0  # the task counts as gone only after the platform reports this for so long
_DENIED_SECONDS = dict.fromkeys(Cause, 20.0)  # how long a denied stop is retried: an ending pod has 30 seconds
_URGENT_SECONDS = 3.0  # for an answer to the stop: the next signal is handled only after it
_LAST_READS = 20
_SILENT_SECONDS = 10.0  # how long the platform may be unavailable while the last lines are read
_WITH_MESSAGES = (State.FAILED, State.LOST)
_MESSAGE_PAUSES = (0.0, 1.0)  # seconds before each look for them
_SHOWN = 2000  # characters of them
_NO_TASK = 401  # HAI's answer to a request for the log of an unknown task


class _Poll:
    """A repeated request: its pause is short after an event, and grows without events."""

    def __init__(self, ask: Callable[[], Iterator[Event]], shortest: float, longest: float) -> None:
        self.ask = ask
        self.due = 0.0
        self._shortest, self._longest = shortest, longest
        self._pause = shortest

    def next(self, *, had_events: bool) -> None:
        self._pause = self._shortest if had_events else min(self._pause * _SLOWER, self._longest)
        self.due = time.monotonic() + self._pause

    def soon(self) -> None:
        self._pause = self._shortest
        self.due = min(self.due, time.monotonic() + self._pause)

    def later(self, seconds: float) -> None:
        self.due = max(self.due, time.monotonic() + seconds)


class ChainFollower:
    """What a launcher asks HAI of a chain, and when.

    Attributes:
        task: The newest task of the chain, as it was last seen; None = not asked yet, or it is gone.
        warnings: For the user.
    """

    def __init__(self, client: Client, name: str, chain_id: str, tracker: ChainTracker) -> None:
        """Send no request."""
        self.task: Mapping[str, Any] | None = None
        self.warnings: list[str] = []
        self._client, self._name, self._chain, self._tracker = client, name, chain_id, tracker
        self._replicas = tracker.replicas
        self._logs = [RankLog() for _ in self._replicas]
        self._late = LATE_SECONDS
        self._polls = self._all_polls()
        self._gone_since: float | None = None  # since when the platform reports no such task
        self._tick_due = 0.0
        self._away = 0.0  # since when the platform does not answer; 0 = it answers
        self._notice_due = 0.0  # after how long it is reported again; 0 = it was not reported

    def next(self) -> Iterator[Event]:
        """Ask what is due, or wait; yield what follows, and a Tick when it is due.

        Raises:
            LaunchError: The platform has not answered, or has refused to, for too long.
        """
        poll = min(self._polls, key=lambda poll: poll.due)
        pause = min(poll.due - time.monotonic(), TICK_SECONDS)
        if pause > 0:
            time.sleep(pause)
        else:
            yield from self._ask(poll)
        if time.monotonic() >= self._tick_due:
            self._tick_due = time.monotonic() + TICK_SECONDS
            yield Tick(time.time(), visible=not self._away)

    def look(self) -> list[Event]:
        """Return the events so far, in order, without waiting; for an ended task, the end is the last.

        Raises:
            ApiError: The platform does not answer, or refuses.
        """
        self._late = 0.0
        events = list(self._look())
        ended = self._tracker.final is not None
        for rank in range(len(self._replicas)):
            ask = functools.partial(self._client.log_once, self._chain, rank)
            events += self._rest_of_log(rank, ask) if ended else self._read_log(rank, ask)
        if ended:
            events += [*self._tracker.ended(self.task, time.time()), self._tracker.last()]
        return events

    def drain(self, stop: StopController) -> Iterator[Event]:
        """Yield the last lines of the ranks; if a log cannot be read to its end, yield a line that says so.

        An unavailable platform is asked again until it has not answered for some seconds, then once for each rank.
        After a stop it is asked once: the launcher's pod may end soon.
        """
        client, answered = self._client.copy(), time.monotonic()

        def ask(rank: int, seen: Seen | None) -> Mapping[str, Any]:
            nonlocal answered
            stopped = stop.cause or stop.requests
            client.patience = 0.0 if stopped else max(answered + _SILENT_SECONDS - time.monotonic(), 0.0)
            answer = client.retry(functools.partial(client.log_once, self._chain, rank, seen))
            answered = time.monotonic()
            return answer

        for rank in range(len(self._replicas)):
            try:
                yield from self._rest_of_log(rank, functools.partial(ask, rank), stop)
            except ApiError as error:
                yield self._gap(rank, str(error))
        self.warnings += gaps(str(self._replicas[rank]) for rank, log in enumerate(self._logs) if log.incomplete)

    def read_messages(self, client: Client) -> None:
        """Add the platform's records of the failed task to the warnings; they appear shortly after its end."""
        for pause in _MESSAGE_PAUSES:
            time.sleep(pause)
            with contextlib.suppress(ApiError):  # it explains the end, but does not decide it
                if lines := client.recorded(self._chain, self._logs[0].last_seen):
                    self.warnings.append(f"HAI recorded of task {self._name}: {'; '.join(lines)[:_SHOWN]}")
                    return

    # --- asking

    def _all_polls(self) -> list[_Poll]:
        shortest = max(1.0, len(self._replicas) / _RANKS_AT_ONCE) * LOG_SECONDS[0]
        logs = [
            _Poll(functools.partial(self._read_log, rank, ask), shortest, max(shortest, LOG_SECONDS[1]))
            for rank in range(len(self._replicas))
            for ask in [functools.partial(self._client.log_once, self._chain, rank)]
        ]
        return [_Poll(self._look, *TASK_SECONDS), *logs]

    def _ask(self, poll: _Poll) -> Iterator[Event]:
        """Yield the events of an answer; without an answer, delay all requests."""
        had_events = changed = False
        try:
            for event in poll.ask():
                had_events, changed = True, changed or not isinstance(event, LogLines | PartialLine)
                yield event
        except ApiError as error:
            if (
                error.status == _NO_TASK and poll is not self._polls[0]
            ):  # the request for the task follows, and has details
                poll.next(had_events=False)
                return
            self._away, self._gone_since = self._away or time.monotonic(), None
            away = time.monotonic() - self._away
            if away > PATIENCE_SECONDS:
                raise LaunchError(f"task {self._name} was not stopped, but {error}", retryable=True) from error
            yield from self._unanswered(error, away)
            for other in self._polls:
                other.later(max(error.retry_after, min(1.0 + away / 4, _AWAY_SECONDS)))
        else:
            self._away = self._notice_due = 0.0
            poll.next(had_events=had_events)
            for other in self._polls if changed else ():  # changes often come together
                other.soon()

    def _unanswered(self, error: ApiError, away: float) -> Iterator[Event]:
        """Yield that the task cannot be followed now: a refusal at once, and again whenever the time has doubled."""
        if away >= (self._notice_due or (_NOTICE_SECONDS if error.unavailable else 0.0)):
            self._notice_due = max(2 * away, _NOTICE_SECONDS)
            limit = format_duration(PATIENCE_SECONDS)
            message = f"The task cannot be followed now, and is not stopped: {error}. It is queried for {limit} in all"
            yield self._tracker.unanswered(f"{message}.", time.time())

    def _look(self) -> Iterator[Event]:
        task, now = self._client.query_once(chain_id=self._chain), time.monotonic()
        self._gone_since = (self._gone_since or now) if task is None else None
        if self._gone_since and now - self._gone_since < _GONE_SECONDS:
            return  # the platform answers so after internal errors, too
        self.task = task
        yield from self._tracker.task(task, time.time())

    def _read_log(self, rank: int, ask: Ask, *, whole: bool = False) -> Iterator[Event]:
        log, replica = self._logs[rank], self._replicas[rank]
        before = log.rest
        entries = log.read(ask, whole=whole)
        if log.incomplete and not any(isinstance(what, dict) and what.get("event") == "begun" for _, what in entries):
            yield from self._tracker.overwritten(replica, log.task, time.time())
        yield from self._lines(replica, entries)
        if log.rest and log.rest != before:
            yield PartialLine.of(time.time(), replica, log.rest)

    def _lines(self, replica: ReplicaName, entries: Sequence[Entry]) -> Iterator[Event]:
        now = time.time()
        for _, group in itertools.groupby(entries, lambda entry: isinstance(entry[1], bytes)):
            batch = list(group)
            if texts := [what for _, what in batch if isinstance(what, bytes)]:
                stamps = [stamp for stamp, _ in batch]
                incarnation = self._tracker.incarnation(replica)
                yield LogLines(now, replica, texts, stamps if all(stamps) else [], incarnation=incarnation)
                continue
            for stamp, what in batch:
                if isinstance(what, bytes):
                    continue
                for event in self._tracker.report(replica, what, event_time(stamp, now, self._late)):
                    # Changes of the job are reported in the order of reading.
                    yield msgspec.structs.replace(event, at=now) if isinstance(event, JobChanged) else event

    def _rest_of_log(self, rank: int, ask: Ask, stop: StopController | None = None) -> Iterator[Event]:
        """Yield the rest of an ended rank's log. A platform that always has more is not asked for ever."""
        for _ in range(_LAST_READS):
            new_events = list(self._read_log(rank, ask, whole=True))
            yield from new_events
            if not new_events or (stop and stop.repeated):
                return
        yield self._gap(rank, f"there was more after {_LAST_READS} answers of HAI since the end of the task")

    def _gap(self, rank: int, why: str) -> LogLines:
        self._logs[rank].incomplete = True
        return one_line(time.time(), self._replicas[rank], f"(log incomplete: {why})".encode())


class HaiJob(FollowedJob):
    """A task, followed by requests at limited rates.

    Attributes:
        uid: Its chain's id, the same over interruptions.
        namespace, hosts: Empty; the host names of its ranks are the platform's.
        created: When it was created, in seconds since the epoch, by the platform's clock where it tells the time.
        tensorboard_url: Empty; the platform runs none.
        warnings: For the user.
    """

    namespace = hosts = tensorboard_url = ""
    platform = "HAI"
    refused = "it could not be stopped"
    _tracker: ChainTracker

    def __init__(
        self,
        client: Client,
        replicas: Sequence[ReplicaName],
        *,
        name: str,
        chain_id: str,
        created: float,
        host: LauncherPod | None = None,
    ) -> None:
        """Take over the task, whose ranks are `replicas`; no request is sent before `events`.

        `host` is the launcher's pod; None = not in a pod.
        """

        def clients() -> Clients:
            cluster = Api(access.find(), patience=0, read_seconds=_URGENT_SECONDS) if host else None
            return Clients(Client(client.access, patience=0, read_seconds=_URGENT_SECONDS), cluster)

        super().__init__(host, clients(), clients(), _DENIED_SECONDS)
        self.name, self.uid, self.created = name, chain_id, created
        self.what = f"task {name}"
        self._client = client
        self._tracker = ChainTracker(replicas)
        self._follower = ChainFollower(client, name, chain_id, self._tracker)

    @property
    def warnings(self) -> list[str]:
        return [*(self._host.warnings if self._host else []), *self._client.warnings, *self._follower.warnings]

    @property
    def age(self) -> float:
        """Age of the task in seconds when following began, by the platform's clock; 0 until known."""
        return self._server_age.seconds(self.created, self._client.server_time())

    def _next(self) -> Iterator[Event]:
        return self._follower.next()

    def _rest(self) -> Iterator[Event]:
        if not self._stop.repeated:
            yield from self._follower.drain(self._stop)
        yield from self._tracker.ended(self._follower.task, time.time())
        if self._tracker.last().state in _WITH_MESSAGES and not self._stop.repeated:
            self._follower.read_messages(self._clients.platform)

    # --- its end

    def _detach(self, host: LauncherPod, cluster: Api, since: float) -> Detachment:
        if self.ends_with_launcher:
            return Detachment(NO)
        taken_away = host.is_taken_away(cluster, since)
        adopted = "the task was not stopped, and the next attempt adopts it"
        return Detachment(taken_away, adopted if taken_away.yes else "")

    @property
    def ends_with_launcher(self) -> bool:
        """Whether nobody follows the task."""
        return self._host is not None and self._host.followed().no

    def send_stop(self, client: Client) -> None:
        """Stop the task. ApiError if that is denied, or there is no answer."""
        if PAUSED in labels(self._follower.task or {}):  # it is stopped already, and must not be resumed
            client.tag(self.uid, PAUSED, on=False)
        client.stop_once(self.uid)

    def _leftover(self) -> str:
        return f"chain {self.uid} may take some seconds to end"

    def read_folder(self, folder: str, program: Sequence[str]) -> None:
        """Do nothing: a launcher can read only what it mounts of the shared file system."""

    def remove(self, what: Literal["pods", "job"]) -> None:
        """Do nothing: the platform has removed the pods, and its record of the task cannot be removed."""
