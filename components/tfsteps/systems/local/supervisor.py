"""Runs the replicas of one job to their end: one loop over pipes, process ends, timers and stop requests.

Each state of a job is an object that has only what is valid in it: `LocalJob` (not started), `_RunningJob` (its
processes), `_Active` (what restarts them), and the outcome, which replaces `_Active` while the other replicas end.
"""

import collections
import contextlib
import heapq
import itertools
import os
import selectors
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import Literal, NamedTuple

import msgspec

from tfsteps.runs.events import (
    TICK_SECONDS,
    Event,
    JobChanged,
    LogLines,
    ReplicaName,
    ReplicaState,
    State,
    Tick,
    replicas_of,
)
from tfsteps.runs.store import AttemptFolder
from tfsteps.spec import TrainingJob
from tfsteps.systems.base import Cause
from tfsteps.systems.local import stacks
from tfsteps.systems.local.guard import Guard
from tfsteps.systems.local.joins import Joins
from tfsteps.systems.local.options import LocalOptions
from tfsteps.systems.local.output import Collector, Source
from tfsteps.systems.local.process import CannotStartError, Command, LocalProcess
from tfsteps.systems.local.replica_process import UP, ReplicaProcess
from tfsteps.systems.local.usage import UsageMeter
from tfsteps.systems.restart_policy import RestartPolicy, restart_rules
from tfsteps.text.failure_patterns import failure_pattern, no_restart_helps, repeatable
from tfsteps.text.tracebacks import STACK, Raised, raised

_PORT_TRIES = 5
_SETTLE_SECONDS = 3.0  # how long a lost peer's end waits for the end that caused it
_ENDING_SECONDS = 20.0  # the same, if another replica has printed an exception: TensorFlow takes so long to end
_MEMORY_SECONDS = 0.25
_BLOCKS = 8  # of output, before other events are handled


class LocalJob:
    """A job of local processes. They start with the first event, and all have ended with the last.

    Attributes:
        name: The job's name.
        uid: Unique for each job.
        namespace, hosts: Empty.
        created: When it was prepared, in seconds since the epoch.
    """

    namespace = hosts = tensorboard_url = ""
    age = 0.0

    def __init__(
        self,
        name: str,
        job: TrainingJob,
        options: LocalOptions,
        commands: Callable[[], dict[ReplicaName, Command]],
        attempt: AttemptFolder,
    ) -> None:
        """Prepare. `commands` is called again for new ports; the folder of `attempt` is for waiting output."""
        self.name, self.uid, self.created = name, str(uuid.uuid4()), time.time()
        self.warnings: list[str] = []
        self._job, self._options, self._make_commands, self._attempt = job, options, commands, attempt
        self._stop = _StopRequests()

    def events(self) -> Iterator[Event]:
        """Start the replicas, then yield events until all have ended."""
        with (
            contextlib.closing(self._stop),
            Guard(self._attempt.replicas_ended) as guard,
            contextlib.closing(
                _RunningJob(self._job, self._options, self._make_commands, self._attempt, guard)
            ) as running,
        ):
            running.loop.on_readable(self._stop.pipe, lambda: running.stop(self._stop))
            outcome = yield from running.events()
            self.warnings += filter(None, [running.warning])
            yield msgspec.structs.replace(outcome, at=time.time())

    def stop(self, cause: Cause) -> None:
        """Send SIGTERM to the processes, after a deadline when they have printed their stacks; a second call kills.

        Safe in a signal handler.
        """
        self._stop.request(cause)

    def read_folder(self, folder: str, program: Sequence[str]) -> None:
        """Do nothing: its processes see the same folders as this one."""

    def remove(self, what: Literal["pods", "job"]) -> None:
        """Do nothing: ended processes leave nothing behind."""


class _StopRequests:
    """Wakes the loop of a job from a signal handler.

    Attributes:
        pipe: Is readable while a request was not taken.
        count: Number of requests.
        deadline: Whether one came from a deadline.
    """

    def __init__(self) -> None:
        """Begin without a request."""
        self.count, self.deadline = 0, False
        self.pipe, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def request(self, cause: Cause) -> None:
        """Count a request; do nothing else after `close`. Safe in a signal handler."""
        self.count += 1
        self.deadline = self.deadline or cause is Cause.DEADLINE
        if self._write >= 0:
            os.write(self._write, b"!")

    def close(self) -> None:
        """Close the pipe."""
        os.close(self.pipe)
        write, self._write = self._write, -1
        os.close(write)


class _Loop:
    """Calls what is due: for file descriptors that are readable, and for timers."""

    def __init__(self) -> None:
        """Begin with nothing to wait for."""
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Callable[[], object]]] = []
        self._order = itertools.count()

    def on_readable(self, file: int, action: Callable[[], object]) -> None:
        """Call `action` whenever a file descriptor is readable."""
        self._selector.register(file, selectors.EVENT_READ, action)

    def forget(self, file: int) -> None:
        """Wait for a file descriptor no longer."""
        self._selector.unregister(file)

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        """Call `action` once, later."""
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), action))

    def step(self) -> None:
        """Wait for something to be due, and handle it. There is a timer."""
        for key, _ in self._selector.select(max(0.0, self._timers[0][0] - time.monotonic())):
            key.data()
        while self._timers and self._timers[0][0] <= time.monotonic():
            heapq.heappop(self._timers)[2]()

    def close(self) -> None:
        """Wait for nothing any more."""
        self._selector.close()


class _RunningJob:
    """The processes of a job, from their start until `close`.

    Attributes:
        loop: Calls its methods.
        commands: The commands of the replicas, with their present ports.
        latest: The last process of each replica that was started.
        phase: Restarts replicas; or the outcome, when it is decided: the other replicas are ending.
        warning: That the replicas of a job that has succeeded did not train together; empty = none.
    """

    def __init__(
        self,
        job: TrainingJob,
        options: LocalOptions,
        commands: Callable[[], dict[ReplicaName, Command]],
        attempt: AttemptFolder,
        guard: Guard,
    ) -> None:
        """Choose the ports, and collect output; no process is started yet."""
        self.job, self.warning = job, ""
        self._options, self._make_commands, self._guard = options, commands, guard
        self.commands = commands()
        self.loop = _Loop()
        self.latest: dict[ReplicaName, ReplicaProcess] = {}
        self._running: dict[ReplicaName, ReplicaProcess] = {}
        self._queue: collections.deque[Event] = collections.deque()
        self._last_state = (State.UNKNOWN, "", "")
        self._joins, self._usage = Joins(job, options), UsageMeter(job)
        self.phase: _Active | JobChanged = _Active(self)
        self._collector: Collector[ReplicaProcess] = Collector(attempt.folder, len(self.commands))
        self.loop.on_readable(self._collector.ready, self._on_output)

    @property
    def running(self) -> list[ReplicaProcess]:
        """The processes whose end, with their whole output, has not been handled."""
        return list(self._running.values())

    def events(self) -> Generator[Event, None, JobChanged]:
        """Start the replicas, yield events until all have ended, and return the outcome."""
        self.tell(State.PENDING)
        self.spawn(replicas_of(self.job.roles.items()))
        self.loop.after(0, self._tick)
        self.loop.after(0, self._watch_starts)
        self.loop.after(_MEMORY_SECONDS, self._watch_memory)
        while not isinstance(outcome := self.phase, JobChanged) or self._running:
            while self._queue:
                yield self._queue.popleft()
            self.loop.step()
        while self._queue:
            yield self._queue.popleft()
        return outcome

    def stop(self, requests: _StopRequests) -> None:
        """End the processes on request: after a deadline they print their stacks first; a second request kills."""
        os.read(requests.pipe, 1024)
        if not (isinstance(self.phase, JobChanged) and self.phase.state is State.FAILED):
            self.phase = JobChanged(at=0, state=State.CANCELLED, reason="Stopped")
        asked = stacks.request(self.running) if requests.deadline and requests.count == 1 else []
        for replica in asked:
            self._lines(replica, time.time(), [STACK.encode()])
        self.loop.after(stacks.SECONDS if asked else 0, lambda: self.end(self.running))
        for replica in self.running if requests.count > 1 else ():  # both signals may have come before this call
            replica.process.kill()

    def close(self) -> None:
        """Leave no process, pipe or file descriptor, however the loop ended."""
        for replica in self.running:
            replica.process.kill()
            while replica.ended is None and replica.process.ended() is None:
                time.sleep(0.001)
        self._collector.close()
        for replica in self.running:
            replica.process.close()
        self.loop.close()

    # --- what is due

    def _tick(self) -> None:
        self._queue.append(Tick(time.time()))
        self._queue.extend(self._usage.look(self.running))
        self._joins.look(self.running, self.commands)
        self.loop.after(TICK_SECONDS, self._tick)

    def _watch_starts(self) -> None:
        """Check for started replicas; often at first, when they are expected."""
        waiting = [replica for replica in self.running if replica.state is ReplicaState.PENDING]
        if waiting:
            self._see_starts()
        age = max((time.time() - replica.process.started for replica in waiting), default=0.0)
        self.loop.after(0.1 if age < 60 else 1.0, self._watch_starts)

    def _see_starts(self) -> None:
        """Report which replicas have joined the others, and that the job runs once all processes run."""
        waiting = [replica for replica in self.running if replica.state is ReplicaState.PENDING]
        for replica in self._joins.started(waiting, self.commands):
            self.report(replica, ReplicaState.RUNNING)
        up = all(replica.state in (*UP, ReplicaState.SUCCEEDED) for replica in self.latest.values())
        if isinstance(self.phase, _Active) and up:
            missing = self._joins.missing(self.running)
            self.tell(State.RUNNING, "NotJoined" if missing else "", missing)

    def _watch_memory(self) -> None:
        for replica in self.running:
            if replica.process.over_limit():
                replica.reason = "OOMKilled"
                replica.process.kill()
        if any(command.memory_limit for command in self.commands.values()):
            self.loop.after(_MEMORY_SECONDS, self._watch_memory)

    def _on_output(self) -> None:
        for _ in range(_BLOCKS):
            taken = self._collector.take()
            if taken is None:
                return
            replica, at, data = taken
            if data:
                self._lines(replica, at, replica.process.lines(data))
                self._queue.extend(replica.partial_lines())
            else:
                replica.output_read = True
                self._conclude(replica)

    def _on_exit(self, replica: ReplicaProcess, output: Source[ReplicaProcess]) -> None:
        if ended := replica.process.ended():
            self.loop.forget(replica.process.exit_fd)
            replica.ended = ended
            if not replica.output_read:
                self._collector.finish(output)
            self._conclude(replica)

    def _conclude(self, replica: ReplicaProcess) -> None:
        """Handle the end of a process after its whole output has been read."""
        process, ended = replica.process, replica.ended
        if ended is None or not replica.output_read:
            return
        del self._running[replica.replica]
        self._lines(replica, time.time(), process.close())
        young = time.time() - process.started < 60
        replica.reason = replica.reason or failure_pattern(
            ended.exit_code, replica.tail.lines(), has_port=bool(process.command.port) and young
        )
        failed = ReplicaState.STOPPED if replica.stop_asked else ReplicaState.FAILED
        self.report(replica, failed if ended.exit_code else ReplicaState.SUCCEEDED)
        self._queue.extend(self._usage.end(str(replica.replica), ended.memory_bytes))
        if isinstance(self.phase, _Active):
            self.phase.ended(replica, ended.exit_code)
        succeeded = isinstance(self.phase, JobChanged) and self.phase.state is State.SUCCEEDED
        if succeeded and not any(other.replica.role == "worker" for other in self.running):
            # in between-graph replication the parameter servers must outlive the workers
            self.end(other for other in self.running if other.replica.role == "ps")

    # --- for the phase

    def spawn(self, replicas: Iterable[ReplicaName], *, new_ports: bool = False) -> None:
        """Start a process of each replica; none of them runs."""
        if new_ports:
            self.commands = self._make_commands()
        for replica in replicas:
            try:
                process = LocalProcess(self.commands[replica], self._guard)
            except CannotStartError as error:
                self.fail("StartFailed" if error.passing else "CannotStart", str(error), replica)
                return
            number = self.latest[replica].number + 1 if replica in self.latest else 0
            started = self.latest[replica] = self._running[replica] = ReplicaProcess(replica, number, process)
            output = self._collector.add(started, process.out_fd)
            self.loop.on_readable(process.exit_fd, partial(self._on_exit, started, output))
            self.report(started, ReplicaState.PENDING)
        self._see_starts()

    def end(self, replicas: Iterable[ReplicaProcess]) -> None:
        """Send SIGTERM to processes, once to each, and SIGKILL after the grace period."""
        for replica in replicas:
            if not replica.stop_asked:
                replica.stop_asked = True
                replica.process.terminate()
                self.loop.after(self._options.grace, replica.process.kill)

    def succeed(self) -> None:
        """Wait for the other replicas to end; parameter servers never end by themselves and are stopped earlier."""
        self.phase = JobChanged(at=0, state=State.SUCCEEDED)
        self.warning = self._joins.apart
        if self.job.effective_strategy == "parameter_server":
            self.end(replica for replica in self.running if replica.replica.role in ("ps", "worker"))
        self.loop.after(self._options.finish, lambda: self.end(self.running))

    def fail(self, reason: str, message: str, replica: ReplicaName) -> None:
        """End all replicas: the job has failed because of one."""
        self.phase = JobChanged(at=0, state=State.FAILED, reason=reason, message=f"{message}.", replica=replica)
        self.end(self.running)

    def tell(self, state: State, reason: str = "", message: str = "") -> None:
        """Report the state of the job if it has changed."""
        if (state, reason, message) != self._last_state:
            self._queue.append(JobChanged(at=time.time(), state=state, reason=reason, message=message))
        self._last_state = state, reason, message

    def report(self, replica: ReplicaProcess, state: ReplicaState) -> None:
        """Report the state of a replica."""
        replica.state = state
        self._queue.append(replica.change())

    def _lines(self, replica: ReplicaProcess, at: float, texts: list[bytes]) -> None:
        if texts:
            replica.tail.add(texts)
            self._queue.append(LogLines(at, replica.replica, texts, incarnation=replica.number))


class _Restart(NamedTuple):
    """Replicas that start again `delay` seconds after the last of them has ended."""

    replicas: frozenset[ReplicaName]
    delay: float
    new_ports: bool


class _Active:
    """Applies the restart policy to a job of which neither success nor failure is decided, and which is not stopped."""

    def __init__(self, job: _RunningJob) -> None:
        """Begin with no restart used."""
        self._job = job
        self._policy = RestartPolicy(restart_rules(job.job), patient=job.job.names_backoff_limit)
        self._port_tries = 0
        self._restarts: list[_Restart] = []
        self._deferred: list[tuple[ReplicaProcess, int]] = []  # lost a peer whose end was not seen yet

    def ended(self, replica: ReplicaProcess, exit_code: int) -> None:
        """Handle the end of a replica: one that was not requested is judged when it is clear which failed first."""
        if not replica.stop_asked:
            judged = {replica, *(waiting for waiting, _ in self._deferred)}
            peers = (other for other in self._job.running if other.replica.role != "evaluator")
            if exit_code and replica.reason == "PortTaken" and self._port_tries < _PORT_TRIES:
                self._port_tries += 1
                members = frozenset(member for member, command in self._job.commands.items() if command.port)
                self._restart(members, 0.0, f"{replica.replica} found its port taken", new_ports=True)
            elif exit_code and replica.reason == "PeerLost" and any(peer not in judged for peer in peers):
                self._deferred.append((replica, exit_code))
                decide = partial(self._decide_deferred, time.monotonic() + _ENDING_SECONDS)
                self._job.loop.after(_SETTLE_SECONDS, decide)
            else:
                self._deferred.clear()
                self._decide(replica, exit_code)
        self._restart_ended()

    def _decide_deferred(self, until: float) -> None:
        if not self._deferred or self._job.phase is not self:
            return
        if time.monotonic() < until and any(raised(other.tail.lines()).exception for other in self._job.running):
            # a peer has failed, and is ending
            self._job.loop.after(_SETTLE_SECONDS, partial(self._decide_deferred, until))
        else:
            first = self._deferred[0]
            self._deferred.clear()
            self._decide(*first)
            self._restart_ended()

    def _decide(self, replica: ReplicaProcess, exit_code: int) -> None:
        latest = self._job.latest.items()
        succeeded = {name.member for name, other in latest if other.state is ReplicaState.SUCCEEDED}
        error = raised(replica.tail.lines()) if exit_code else Raised()
        failure = "" if replica.reason else repeatable(error)
        decision = self._policy.judge(replica.replica.member, exit_code, succeeded, replica.reason, failure)
        if decision.action == "succeed":
            self._job.succeed()
        elif decision.action == "fail":
            self._job.fail(decision.reason, decision.message, replica.replica)
        elif decision.action == "restart":
            useless = f", which does not help against {error.exception}" if no_restart_helps(error.exception) else ""
            members = frozenset(ReplicaName(*member) for member in decision.members)
            mirrored = self._job.job.effective_strategy == "multi_worker_mirrored"
            self._restart(members, decision.delay, decision.message + useless, new_ports=mirrored)

    def _restart(self, replicas: frozenset[ReplicaName], delay: float, why: str, *, new_ports: bool) -> None:
        self._restarts = [restart for restart in self._restarts if not restart.replicas <= replicas]
        self._restarts.append(_Restart(replicas, delay, new_ports))
        self._job.tell(State.RESTARTING, message=f"{why}.")
        self._job.end(other for other in self._job.running if other.replica in replicas)

    def _restart_ended(self) -> None:
        """Start those groups again whose replicas have all ended."""
        if self._job.phase is not self:
            return
        running = {other.replica for other in self._job.running}
        ready = [restart for restart in self._restarts if running.isdisjoint(restart.replicas)]
        self._restarts = [restart for restart in self._restarts if restart not in ready]
        for restart in ready:
            for replica in sorted(restart.replicas):
                self._job.report(self._job.latest[replica], ReplicaState.RESTARTING)
            self._job.loop.after(restart.delay, partial(self._start_again, restart))

    def _start_again(self, restart: _Restart) -> None:
        if self._job.phase is self:
            running = {other.replica for other in self._job.running}
            ended = [replica for replica in self._job.latest if replica in restart.replicas - running]
            self._job.spawn(ended, new_ports=restart.new_ports)
