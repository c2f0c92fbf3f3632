"""Runs the replicas of one job to their end: one loop over pipes, process ends, timers and stop requests.

Each state of a job is an object that has only what is valid in it: `LocalJob` (not started), `_RunningJob` (its
processes), `_Active` (what restarts them), and the outcome, which replaces `_Active` while the other replicas end.
"""

import collections
import contextlib
import os
import sched
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
    ReplicaName,
    ReplicaState,
    State,
    Tick,
    replicas_of,
)
from tfsteps.runs.store import AttemptFolder
from tfsteps.spec import TrainingJob
from tfsteps.systems.base import Cause
from tfsteps.systems.local.guard import Guard
from tfsteps.systems.local.options import LocalOptions
from tfsteps.systems.local.output import Collector
from tfsteps.systems.local.ports import Joins
from tfsteps.systems.local.process import SECONDS, UP, CannotStartError, Command, ReplicaProcess, request_stacks
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
        is_new: True: no other launcher follows it.
    """

    namespace = hosts = tensorboard_url = ""
    is_new = True
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
        self._stops = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)  # counts requests; wakes the loop
        self._by_deadline = False  # one of them

    def events(self) -> Iterator[Event]:
        """Start the replicas, then yield events until all have ended."""
        try:
            with contextlib.ExitStack() as stack:
                try:
                    guard = stack.enter_context(Guard(self._attempt.replicas_ended))
                    running = _RunningJob(self._job, self._options, self._make_commands, self._attempt, guard)
                except OSError as error:  # the machine lacks ports, processes or file descriptors
                    yield _not_started(error)
                    return
                stack.enter_context(contextlib.closing(running))
                stop = lambda: running.stop(os.eventfd_read(self._stops), by_deadline=self._by_deadline)  # noqa: E731
                running.selector.register(self._stops, selectors.EVENT_READ, stop)
                outcome = yield from running.events()
                self.warnings += filter(None, [running.warning])
                yield msgspec.structs.replace(outcome, at=time.time())
        finally:
            stops, self._stops = self._stops, -1
            os.close(stops)

    def stop(self, cause: Cause) -> None:
        """Send SIGTERM to the processes, after a deadline when they have printed their stacks; a second call kills.

        Safe in a signal handler.
        """
        self._by_deadline = self._by_deadline or cause is Cause.DEADLINE
        if self._stops >= 0:
            os.eventfd_write(self._stops, 1)

    def read_folder(self, folder: str, program: Sequence[str]) -> None:
        """Do nothing: its processes see the same folders as this one."""

    def remove(self, what: Literal["pods", "job"]) -> None:
        """Do nothing: ended processes leave nothing behind."""


class _RunningJob:
    """The processes of a job, from their start until `close`.

    Attributes:
        queue: Events that have not been yielded.
        selector: Its data are functions, which are called when their file descriptors are readable.
        timers: Functions that are called later.
        commands: The commands of the replicas, with their present ports.
        latest: The last process of each replica that was started.
        running: The processes whose end, with their whole output, has not been handled.
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
        self.queue: collections.deque[Event] = collections.deque()
        self.selector = selectors.DefaultSelector()
        self.timers = sched.scheduler(time.monotonic, lambda _: None)  # by default each timer gives up the CPU
        self.latest: dict[ReplicaName, ReplicaProcess] = {}
        self.running: list[ReplicaProcess] = []
        self._last_state = (State.UNKNOWN, "", "")
        self._stops = 0  # requests to stop
        self._joins, self._usage = Joins(job, options), UsageMeter(job)
        self.phase: _Active | JobChanged = _Active(self)
        self._collector: Collector[ReplicaProcess] = Collector(attempt.folder, len(self.commands))
        self.selector.register(self._collector.ready, selectors.EVENT_READ, self._on_output)

    def events(self) -> Generator[Event, None, JobChanged]:
        """Start the replicas, yield events until all have ended, and return the outcome."""
        self.tell(State.PENDING)
        self.spawn(replicas_of(self.job.roles.items()))
        for watch in (self._tick, self._watch_starts, self._watch_memory):
            self.timers.enter(0, 0, watch)
        while True:
            while self.queue:
                yield self.queue.popleft()
            if isinstance(outcome := self.phase, JobChanged) and not self.running:
                return outcome
            wait = self.timers.run(blocking=False)
            for key, _ in self.selector.select(0 if self.queue else wait):
                key.data()

    def stop(self, requests: int, *, by_deadline: bool) -> None:
        """End the processes: after a deadline they print their stacks first; more requests than one kill."""
        self._stops += requests
        if not (isinstance(self.phase, JobChanged) and self.phase.state is State.FAILED):
            self.phase = JobChanged(at=0, state=State.CANCELLED, reason="Stopped")
        asked = request_stacks(self.running) if by_deadline and self._stops == 1 else []
        self.queue.extend(replica.printed(time.time(), [STACK.encode()]) for replica in asked)
        self.timers.enter(SECONDS if asked else 0, 0, lambda: self.end(self.running))
        for replica in self.running if self._stops > 1 else ():  # both signals may have come before this call
            replica.kill()

    def close(self) -> None:
        """Leave no process, pipe or file descriptor, however the loop ended."""
        for replica in self.running:
            replica.kill()
            while not replica.poll():
                time.sleep(0.001)
        self._collector.close()
        for replica in self.running:
            collections.deque(replica.close(), maxlen=0)
        self.selector.close()

    # --- what is due

    def _tick(self) -> None:
        self.queue.append(Tick(time.time()))
        self._guard.replace_ended()
        self.queue.extend(self._usage.look(self.running))
        self._joins.look(self.running, self.commands)
        self.timers.enter(TICK_SECONDS, 0, self._tick)

    def _watch_starts(self) -> None:
        """Check for started replicas; often at first, when they are expected."""
        waiting = [replica for replica in self.running if replica.state is ReplicaState.PENDING]
        if waiting:
            self._see_starts()
        age = max((time.time() - replica.started for replica in waiting), default=0.0)
        self.timers.enter(0.1 if age < 60 else 1.0, 0, self._watch_starts)

    def _see_starts(self) -> None:
        """Report which replicas have joined the others, and that the job runs once all processes run."""
        waiting = [replica for replica in self.running if replica.state is ReplicaState.PENDING]
        for replica in self._joins.started(waiting, self.commands):
            self.queue.append(replica.changed(ReplicaState.RUNNING))
        up = all(replica.state in (*UP, ReplicaState.SUCCEEDED) for replica in self.latest.values())
        if isinstance(self.phase, _Active) and up:
            missing = self._joins.missing(self.running)
            self.tell(State.RUNNING, "NotJoined" if missing else "", missing)

    def _watch_memory(self) -> None:
        for replica in self.running:
            if replica.over_limit():
                replica.reason = "OOMKilled"
                replica.kill()
        if any(command.memory_limit for command in self.commands.values()):
            self.timers.enter(_MEMORY_SECONDS, 0, self._watch_memory)

    def _on_output(self) -> None:
        for _ in range(_BLOCKS):
            taken = self._collector.take()
            if taken is None:
                return
            replica, at, data = taken
            if data:
                self.queue.extend(replica.read(at, data))
            else:
                replica.output_read = True
                self._conclude(replica)

    def _on_exit(self, replica: ReplicaProcess) -> None:
        if replica.poll():
            self.selector.unregister(replica.exit_fd)
            if not replica.output_read:
                self._collector.finish(replica)
            self._conclude(replica)

    def _conclude(self, replica: ReplicaProcess) -> None:
        """Handle the end of a process after its whole output has been read."""
        ended = replica.ended
        if ended is None or not replica.output_read:
            return
        self.running.remove(replica)
        self.queue.extend(replica.close())
        young = time.time() - replica.started < 60
        replica.reason = replica.reason or failure_pattern(
            ended.exit_code, replica.tail.lines(), has_port=bool(replica.command.port) and young
        )
        failed = ReplicaState.STOPPED if replica.stop_asked else ReplicaState.FAILED
        self.queue.append(replica.changed(failed if ended.exit_code else ReplicaState.SUCCEEDED))
        self.queue.extend(self._usage.end(str(replica.replica), ended.memory_bytes))
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
            try:
                self.commands = self._make_commands()
            except OSError as error:
                self.phase = _not_started(error)
                return
        for replica in replicas:
            try:
                number = self.latest[replica].number + 1 if replica in self.latest else 0
                process = ReplicaProcess(self.commands[replica], number, self._guard)
            except CannotStartError as error:
                self.fail("StartFailed" if error.passing else "CannotStart", str(error), replica)
                return
            self.latest[replica] = process
            self.running.append(process)
            self._collector.add(process, process.out_fd)
            self.selector.register(process.exit_fd, selectors.EVENT_READ, partial(self._on_exit, process))
            self.queue.append(process.changed(ReplicaState.PENDING))
        self._see_starts()

    def end(self, replicas: Iterable[ReplicaProcess]) -> None:
        """Send SIGTERM to processes that run, once to each, and SIGKILL after the grace period."""
        for replica in replicas:
            if not (replica.stop_asked or replica.has_ended):
                replica.stop_asked = True
                replica.terminate()
                self.timers.enter(self._options.grace, 0, replica.kill)

    def succeed(self) -> None:
        """Wait for the other replicas to end; parameter servers never end by themselves and are stopped earlier."""
        self.phase = JobChanged(at=0, state=State.SUCCEEDED)
        self.warning = self._joins.apart
        if self.job.effective_strategy == "parameter_server":
            self.end(replica for replica in self.running if replica.replica.role in ("ps", "worker"))
        self.timers.enter(self._options.finish, 0, lambda: self.end(self.running))

    def fail(self, reason: str, message: str, replica: ReplicaName) -> None:
        """End all replicas: the job has failed because of one."""
        self.phase = JobChanged(at=0, state=State.FAILED, reason=reason, message=f"{message}.", replica=replica)
        self.end(self.running)

    def tell(self, state: State, reason: str = "", message: str = "") -> None:
        """Report the state of the job if it has changed."""
        if (state, reason, message) != self._last_state:
            self.queue.append(JobChanged(at=time.time(), state=state, reason=reason, message=message))
        self._last_state = state, reason, message


def _not_started(error: OSError) -> JobChanged:
    """Return the end of a job of which no process could be started."""
    message = f"The replicas could not be started: {error}."
    return JobChanged(at=time.time(), state=State.FAILED, reason="StartFailed", message=message)


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
        """Handle the end of a replica: one that was not requested is judged when it is clear which failed first.

        One that starts again because of another is not judged: one failure may end several.
        """
        starts_again = any(replica.replica in restart.replicas for restart in self._restarts)
        if not (replica.stop_asked or starts_again):
            judged = {replica, *(waiting for waiting, _ in self._deferred)}
            peers = (other for other in self._job.running if other.replica.role != "evaluator")
            if exit_code and replica.reason == "PortTaken" and self._port_tries < _PORT_TRIES:
                self._port_tries += 1
                members = frozenset(member for member, command in self._job.commands.items() if command.port)
                self._restart(members, 0.0, f"{replica.replica} found its port taken", new_ports=True)
            elif exit_code and replica.reason == "PeerLost" and any(peer not in judged for peer in peers):
                self._deferred.append((replica, exit_code))
                decide = partial(self._decide_deferred, time.monotonic() + _ENDING_SECONDS)
                self._job.timers.enter(_SETTLE_SECONDS, 0, decide)
            else:
                self._deferred.clear()
                self._decide(replica, exit_code)
        self._restart_ended()

    def _decide_deferred(self, until: float) -> None:
        if not self._deferred or self._job.phase is not self:
            return
        if time.monotonic() < until and any(raised(other.tail.lines()).exception for other in self._job.running):
            # a peer has failed, and is ending
            self._job.timers.enter(_SETTLE_SECONDS, 0, partial(self._decide_deferred, until))
        else:
            first = self._deferred[0]
            self._deferred.clear()
            self._decide(*first)
            self._restart_ended()

    def _decide(self, replica: ReplicaProcess, exit_code: int) -> None:
        latest = self._job.latest.items()
        succeeded = {name.member for name, other in latest if other.state is ReplicaState.SUCCEEDED}
        tail = replica.tail.lines() if exit_code else []
        error = raised(tail) if tail else Raised()
        failure = "" if replica.reason else repeatable(error, tail)
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
        self._deferred = [waiting for waiting in self._deferred if waiting[0].replica not in replicas]
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
                self._job.queue.append(self._job.latest[replica].changed(ReplicaState.RESTARTING))
            self._job.timers.enter(restart.delay, 0, partial(self._start_again, restart))

    def _start_again(self, restart: _Restart) -> None:
        if self._job.phase is self:
            running = {other.replica for other in self._job.running}
            ended = [replica for replica in self._job.latest if replica in restart.replicas - running]
            self._job.spawn(ended, new_ports=restart.new_ports)
