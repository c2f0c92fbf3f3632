"""Runs the replicas of one job to their end: one loop over pipes, process ends, timers and stop requests."""

import collections
import enum
import heapq
import itertools
import os
import selectors
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal

import msgspec

from tfsteps.runs.events import (
    TICK_SECONDS,
    Event,
    JobChanged,
    LogLines,
    Replica,
    ReplicaState,
    State,
    Tick,
    replicas_of,
)
from tfsteps.runs.last_lines import Tail
from tfsteps.runs.store import Attempt
from tfsteps.spec import TrainingJob
from tfsteps.systems.base import Cause
from tfsteps.systems.local import stacks
from tfsteps.systems.local.guard import Guard
from tfsteps.systems.local.joins import Joins
from tfsteps.systems.local.options import LocalOptions
from tfsteps.systems.local.output import Collector
from tfsteps.systems.local.process import CannotStartError, Command, Ended, Process
from tfsteps.systems.local.replica_process import ReplicaProcess
from tfsteps.systems.local.usage import UsageMeter
from tfsteps.systems.restart_policy import RestartPolicy, restart_rules
from tfsteps.text.failure_patterns import failure_pattern, no_restart_helps, repeatable
from tfsteps.text.tracebacks import STACK, Raised, raised

_PORT_TRIES = 5
_SETTLE_SECONDS = 3.0  # how long a lost peer's end waits for the end that caused it
_ENDING_SECONDS = 20.0  # the same, if another replica has printed an exception: TensorFlow takes so long to end
_MEMORY_SECONDS = 0.25
_BLOCKS = 8  # of output, before other events are handled


class _Phase(enum.Enum):
    ACTIVE = enum.auto()
    FINISHING = enum.auto()  # succeeded: the others are ending
    FAILING = enum.auto()  # failed: the others are being ended
    STOPPING = enum.auto()  # stopped on request


class LocalJob:
    """A job of local processes. They start with the first event, and all have ended with the last.

    Attributes:
        name: The job's name.
        uid: Unique for each job.
        namespace, hosts: Empty.
        created: When it was prepared, in seconds since the epoch.
    """

    namespace = hosts = ""

    def __init__(
        self,
        name: str,
        job: TrainingJob,
        options: LocalOptions,
        commands: Callable[[], dict[Replica, Command]],
        attempt: Attempt,
    ) -> None:
        """Prepare. `commands` is called again for new ports; the folder of `attempt` is for waiting output."""
        self.name, self.tensorboard_url = name, ""
        self.uid, self.created, self.age = str(uuid.uuid4()), time.time(), 0.0
        self.warnings: list[str] = []
        self._job, self._options = job, options
        self._make_commands, self._attempt = commands, attempt
        self._restart_policy = RestartPolicy(restart_rules(job), patient=job.names_backoff_limit)
        self._slots = {replica: ReplicaProcess(replica) for replica in replicas_of(job.roles.items())}
        self._phase = _Phase.ACTIVE
        self._port_tries, self._stops, self._deadline = 0, 0, False
        self._last_state = (State.UNKNOWN, "", "")
        self._joins = Joins(job, options)
        self._outcome = JobChanged(at=0, state=State.SUCCEEDED)
        self._groups: list[tuple[frozenset[Replica], float, bool]] = []
        self._parked: list[tuple[ReplicaProcess, int]] = []
        self._usage = UsageMeter(job)
        self._queue: collections.deque[Event] = collections.deque()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    # --- the methods of a handle

    def events(self) -> Iterator[Event]:
        """Start the replicas, then yield events until all have ended."""
        with Guard(self._attempt.replicas_ended) as self._guard, selectors.DefaultSelector() as self._selector:
            self._selector.register(self._wake_read, selectors.EVENT_READ, self._on_wake)
            self._collector: Collector[ReplicaProcess] = Collector(self._attempt.folder, len(self._slots))
            self._selector.register(self._collector.ready, selectors.EVENT_READ, self._on_output)
            try:
                self._commands = self._make_commands()
                self._tell(State.PENDING)
                self._spawn(list(self._slots))
                self._after(0, self._tick)
                self._after(0, self._watch_starts)
                self._after(_MEMORY_SECONDS, self._watch_memory)
                while self._phase is _Phase.ACTIVE or self._running():
                    yield from self._flush()
                    self._step()
                yield from self._flush()
                yield msgspec.structs.replace(self._outcome, at=time.time())
            finally:
                self._kill_all()

    def stop(self, cause: Cause) -> None:
        """Send SIGTERM to the processes, after a deadline when they have printed their stacks; a second call kills.

        Safe in a signal handler.
        """
        self._stops += 1
        self._deadline = self._deadline or cause is Cause.DEADLINE
        if self._wake_write >= 0:
            os.write(self._wake_write, b"!")

    def read_folder(self, folder: str, program: Sequence[str]) -> None:
        """Do nothing: its processes see the same folders as this one."""

    def remove(self, what: Literal["pods", "job"]) -> None:
        """Do nothing: ended processes leave nothing behind."""

    # --- the loop

    def _step(self) -> None:
        """Wait for events, at most until the next timer, and handle them."""
        for key, _ in self._selector.select(max(0.0, self._timers[0][0] - time.monotonic())):
            key.data()
        while self._timers and self._timers[0][0] <= time.monotonic():
            heapq.heappop(self._timers)[2]()

    def _tick(self) -> None:
        self._queue.append(Tick(time.time()))
        self._queue.extend(self._usage.look(self._running()))
        self._joins.look(self._running(), self._commands)
        self._after(TICK_SECONDS, self._tick)

    def _flush(self) -> Iterator[Event]:
        while self._queue:
            yield self._queue.popleft()

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), action))

    def _running(self) -> list[ReplicaProcess]:
        return [slot for slot in self._slots.values() if slot.process]

    # --- starting

    def _spawn(self, replicas: list[Replica]) -> None:
        for replica in replicas:
            slot = self._slots[replica]
            try:
                process = Process(self._commands[replica], self._guard)
            except CannotStartError as error:
                self._fail("StartFailed" if error.passing else "CannotStart", str(error), replica)
                return
            slot.process, slot.stop_asked, slot.reason = process, False, ""
            slot.memory_limit = process.command.memory_limit
            slot.restarts += 1
            slot.tail = Tail()
            slot.output, slot.ended = self._collector.add(slot, process.out_fd), None
            self._selector.register(process.exit_fd, selectors.EVENT_READ, partial(self._on_exit, slot))
            self._report(slot, ReplicaState.PENDING)
        self._see_starts()

    def _watch_starts(self) -> None:
        """Check for started replicas; often at first, when they are expected."""
        waiting = [slot for slot in self._running() if slot.state is ReplicaState.PENDING]
        if waiting:
            self._see_starts()
        age = max((time.time() - slot.process.started for slot in waiting if slot.process), default=0.0)
        self._after(0.1 if age < 60 else 1.0, self._watch_starts)

    def _see_starts(self) -> None:
        """Report which replicas have joined the others, and that the job runs once all processes run."""
        waiting = [slot for slot in self._running() if slot.state is ReplicaState.PENDING]
        for slot in self._joins.started(waiting, self._commands):
            self._report(slot, ReplicaState.RUNNING)
        if self._phase is _Phase.ACTIVE and all(slot.up for slot in self._slots.values()):
            missing = self._joins.missing(self._running())
            self._tell(State.RUNNING, "NotJoined" if missing else "", missing)

    # --- what happens

    def _on_output(self) -> None:
        for _ in range(_BLOCKS):
            taken = self._collector.take()
            if taken is None:
                return
            slot, at, data = taken
            if data and slot.process:
                self._lines(slot, at, slot.process.lines(data))
                self._queue.extend(slot.partial_lines())
            elif not data:
                slot.output = None
                self._conclude(slot)

    def _lines(self, slot: ReplicaProcess, at: float, texts: list[bytes]) -> None:
        if texts:
            slot.tail.add(texts)
            self._queue.append(LogLines(at, slot.replica, texts, incarnation=slot.restarts))

    def _on_exit(self, slot: ReplicaProcess) -> None:
        ended = slot.process.ended() if slot.process else None
        if slot.process is None or ended is None:
            return
        self._selector.unregister(slot.process.exit_fd)
        slot.ended = ended
        if slot.output:
            self._collector.finish(slot.output)
        self._conclude(slot)

    def _conclude(self, slot: ReplicaProcess) -> None:
        """Handle the end of a process after its whole output has been read."""
        process, ended = slot.process, slot.ended
        if process is None or ended is None or slot.output:
            return
        self._lines(slot, time.time(), process.close())
        young = time.time() - process.started < 60
        slot.reason = slot.reason or failure_pattern(
            ended.exit_code, slot.tail.lines(), has_port=bool(process.command.port) and young
        )
        slot.process = None
        self._report(slot, slot.end_state(ended), ended)
        self._queue.extend(self._usage.end(str(slot.replica), ended.memory_bytes))
        if self._phase is _Phase.ACTIVE and not slot.stop_asked:
            self._judge(slot, ended.exit_code)
        self._go_on()

    def _on_wake(self) -> None:
        os.read(self._wake_read, 1024)
        if self._phase is not _Phase.FAILING:
            self._phase = _Phase.STOPPING
            self._outcome = JobChanged(at=0, state=State.CANCELLED, reason="Stopped")
        asked = stacks.request(self._running()) if self._deadline and self._stops == 1 else []
        for slot in asked:
            self._lines(slot, time.time(), [STACK.encode()])
        self._after(stacks.SECONDS if asked else 0, self._end_all)
        for slot in self._running() if self._stops > 1 else ():  # both signals may have come before this call
            if slot.process:
                slot.process.kill()

    def _watch_memory(self) -> None:
        for slot in self._running():
            if slot.process and slot.process.over_limit():
                slot.reason = "OOMKilled"
                slot.process.kill()
        if any(command.memory_limit for command in self._commands.values()):
            self._after(_MEMORY_SECONDS, self._watch_memory)

    # --- deciding

    def _judge(self, slot: ReplicaProcess, exit_code: int) -> None:
        """Apply the restart policy to an end that was not requested, after it is clear which replica failed first."""
        if exit_code and slot.reason == "PortTaken" and self._port_tries < _PORT_TRIES:
            self._port_tries += 1
            members = frozenset(replica for replica, command in self._commands.items() if command.port)
            self._restart(members, 0.0, f"{slot.replica} found its port taken", new_ports=True)
        elif exit_code and slot.reason == "PeerLost" and self._others_may_have_failed(slot):
            self._parked.append((slot, exit_code))
            self._after(_SETTLE_SECONDS, partial(self._unpark, time.monotonic() + _ENDING_SECONDS))
        else:
            self._parked.clear()
            self._decide(slot, exit_code)

    def _others_may_have_failed(self, slot: ReplicaProcess) -> bool:
        judged = {slot, *(waiting for waiting, _ in self._parked)}
        return any(other not in judged for other in self._running() if other.replica.role != "evaluator")

    def _unpark(self, until: float) -> None:
        if not self._parked or self._phase is not _Phase.ACTIVE:
            return
        if time.monotonic() < until and any(raised(slot.tail.lines()).exception for slot in self._running()):
            self._after(_SETTLE_SECONDS, partial(self._unpark, until))  # a peer has failed, and is ending
        else:
            slot, exit_code = self._parked[0]
            self._parked.clear()
            self._decide(slot, exit_code)
            self._go_on()

    def _decide(self, slot: ReplicaProcess, exit_code: int) -> None:
        slots = self._slots.items()
        succeeded = {replica.member for replica, other in slots if other.state is ReplicaState.SUCCEEDED}
        error = raised(slot.tail.lines()) if exit_code else Raised()
        failure = "" if slot.reason else repeatable(error)
        decision = self._restart_policy.judge(slot.replica.member, exit_code, succeeded, slot.reason, failure)
        if decision.action == "succeed":
            self._finish()
        elif decision.action == "fail":
            self._fail(decision.reason, decision.message, slot.replica)
        elif decision.action == "restart":
            useless = f", which does not help against {error.exception}" if no_restart_helps(error.exception) else ""
            replicas = frozenset(Replica(*member) for member in decision.members)
            self._restart(replicas, decision.delay, decision.message + useless)

    def _restart(self, replicas: frozenset[Replica], delay: float, why: str, *, new_ports: bool = False) -> None:
        new_ports = new_ports or self._job.effective_strategy == "multi_worker_mirrored"
        self._groups = [group for group in self._groups if not group[0] <= replicas]
        self._groups.append((replicas, delay, new_ports))
        self._tell(State.RESTARTING, message=f"{why}.")
        for replica in replicas:
            self._ask_to_end(self._slots[replica])

    def _go_on(self) -> None:
        """Restart groups whose members have all ended."""
        if self._phase is not _Phase.ACTIVE:
            self._end_servers()
            return
        ready = [group for group in self._groups if not any(self._slots[replica].process for replica in group[0])]
        self._groups = [group for group in self._groups if group not in ready]
        for replicas, delay, new_ports in ready:
            for replica in sorted(replicas):
                self._report(self._slots[replica], ReplicaState.RESTARTING)
            self._after(delay, partial(self._start_again, replicas, new_ports=new_ports))

    def _start_again(self, replicas: frozenset[Replica], *, new_ports: bool) -> None:
        if self._phase is _Phase.ACTIVE:
            if new_ports:
                self._commands = self._make_commands()
            ended = [replica for replica in self._slots if replica in replicas and not self._slots[replica].process]
            self._spawn(ended)

    # --- ending

    def _finish(self) -> None:
        """Wait for the other replicas to end; parameter servers never end by themselves and are stopped earlier."""
        self._phase = _Phase.FINISHING
        self.warnings += filter(None, [self._joins.apart])
        if self._job.effective_strategy == "parameter_server":
            for slot in self._running():
                if slot.replica.role in ("ps", "worker"):
                    self._ask_to_end(slot)
        self._after(self._options.finish, self._end_all)

    def _end_servers(self) -> None:
        """Stop the parameter servers after the last worker: in between-graph replication they must outlive workers."""
        if self._phase is _Phase.FINISHING and not any(slot.replica.role == "worker" for slot in self._running()):
            for slot in self._running():
                if slot.replica.role == "ps":
                    self._ask_to_end(slot)

    def _fail(self, reason: str, message: str, replica: Replica) -> None:
        self._phase = _Phase.FAILING
        self._outcome = JobChanged(at=0, state=State.FAILED, reason=reason, message=f"{message}.", replica=replica)
        self._end_all()

    def _end_all(self) -> None:
        for slot in self._running():
            self._ask_to_end(slot)

    def _ask_to_end(self, slot: ReplicaProcess) -> None:
        process = slot.process
        if process is None or slot.stop_asked:
            return
        slot.stop_asked = True
        process.terminate()
        self._after(self._options.grace, lambda: process.kill() if slot.process is process else None)

    def _kill_all(self) -> None:
        """Leave no process, pipe or file descriptor, however the loop ended."""
        for slot in self._running():
            assert slot.process
            slot.process.kill()
            while slot.ended is None and slot.process.ended() is None:
                time.sleep(0.001)
        self._collector.close()
        for slot in self._running():
            assert slot.process
            slot.process.close()
            slot.process = None
        os.close(self._wake_read)
        wake, self._wake_write = self._wake_write, -1
        os.close(wake)

    # --- events

    def _tell(self, state: State, reason: str = "", message: str = "") -> None:
        if (state, reason, message) != self._last_state:
            self._queue.append(JobChanged(at=time.time(), state=state, reason=reason, message=message))
        self._last_state = state, reason, message

    def _report(self, slot: ReplicaProcess, state: ReplicaState, ended: Ended | None = None) -> None:
        slot.state = state
        self._queue.append(slot.change(ended))
