"""Runs the replicas of one job to their end: one loop over pipes, process ends, timers and stop requests."""

import collections
import enum
import heapq
import itertools
import os
import selectors
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

import msgspec

from tfsteps.spec import TrainingJob
from tfsteps.systems.base import (
    TICK_SECONDS,
    Cause,
    Event,
    JobChanged,
    LogLine,
    Replica,
    ReplicaChanged,
    ReplicaState,
    State,
    Tick,
)
from tfsteps.systems.local import ports, restarts
from tfsteps.systems.local.guard import Guard
from tfsteps.systems.local.options import LocalOptions
from tfsteps.systems.local.process import Command, Ended, Process
from tfsteps.systems.local.symptoms import symptom

_TAIL_LINES = 40
_PORT_TRIES = 5
_SETTLE_SECONDS = 3.0  # how long a replica that lost a peer waits for the one that failed first to show
_MEMORY_SECONDS = 0.25
_REACHED_LOOKS = 10  # every so many looks, connections are gone through for a replica that no longer listens


class _Phase(enum.Enum):
    ACTIVE = enum.auto()
    FINISHING = enum.auto()  # succeeded: the others are leaving
    FAILING = enum.auto()  # failed: the others are being ended
    STOPPING = enum.auto()  # somebody wants it gone


class _Slot:
    """One replica over all its incarnations."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.state = ReplicaState.PENDING
        self.process: Process | None = None
        self.restarts = -1
        self.stop_asked = False
        self.reason = ""
        self.tail: collections.deque[bytes] = collections.deque(maxlen=_TAIL_LINES)

    @property
    def place(self) -> str:
        if self.process is None:
            return ""
        port = self.process.command.port
        return f"pid {self.process.pid}" + (f" port {port}" if port else "")


class LocalJob:
    """A job of local processes. They start with the first event and end, whatever happens, with the last.

    Attributes:
        name: The job's name.
        uid: Different for every job.
        namespace: Empty.
        created: When it was prepared, in seconds since the epoch.
    """

    namespace = ""

    def __init__(
        self, name: str, job: TrainingJob, options: LocalOptions, commands: Callable[[], dict[Replica, Command]]
    ) -> None:
        """Prepare; `commands` is called again whenever the cluster needs new ports."""
        self.name, self.tensorboard_url = name, ""
        self.uid, self.created = str(uuid.uuid4()), time.time()
        self.warnings: list[str] = []
        self._job, self._options = job, options
        self._make_commands = commands
        self._referee = restarts.Referee(job)
        self._slots = {replica: _Slot(replica) for replica in self._referee.replicas}
        self._phase = _Phase.ACTIVE
        self._looks = 0
        self._job_state: State | None = None
        self._outcome = JobChanged(at=0, state=State.SUCCEEDED)
        self._groups: list[tuple[frozenset[Replica], float, bool]] = []
        self._parked: list[tuple[_Slot, int]] = []
        self._port_tries = 0
        self._stops = 0
        self._queue: collections.deque[Event] = collections.deque()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    # --- what launch sees

    def events(self) -> Iterator[Event]:
        """Start the replicas, then yield what happens until all have ended."""
        with Guard() as self._guard, selectors.DefaultSelector() as self._selector:
            self._selector.register(self._wake_read, selectors.EVENT_READ, self._on_wake)
            try:
                self._commands = self._make_commands()
                self._tell(State.PENDING)
                self._spawn(self._referee.replicas)
                self._after(0, self._watch_starts)
                self._after(_MEMORY_SECONDS, self._watch_memory)
                while self._phase is _Phase.ACTIVE or self._running():
                    yield from self._flush()
                    self._step()
                yield from self._flush()
                yield msgspec.structs.replace(self._outcome, at=time.time())
            finally:
                self._kill_all()

    def stop(self, cause: Cause) -> None:  # noqa: ARG002  every cause ends the processes
        """Ask the processes to end; called again, kill them. Safe in a signal handler."""
        self._stops += 1
        if self._wake_write >= 0:
            os.write(self._wake_write, b"!")

    def remove(self, what: Literal["pods", "job"]) -> None:
        """Do nothing: ended processes leave nothing behind."""

    # --- the loop

    def _step(self) -> None:
        """Wait for one thing to happen, at most until the next tick, and deal with it."""
        timeout = TICK_SECONDS
        if self._timers:
            timeout = max(0.0, min(timeout, self._timers[0][0] - time.monotonic()))
        for key, _ in self._selector.select(timeout):
            key.data()
        while self._timers and self._timers[0][0] <= time.monotonic():
            heapq.heappop(self._timers)[2]()
        if not self._queue:
            self._queue.append(Tick(time.time()))

    def _flush(self) -> Iterator[Event]:
        while self._queue:
            yield self._queue.popleft()

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), action))

    def _running(self) -> list[_Slot]:
        return [slot for slot in self._slots.values() if slot.process]

    # --- starting

    def _spawn(self, replicas: list[Replica]) -> None:
        for replica in replicas:
            slot = self._slots[replica]
            try:
                process = Process(self._commands[replica], self._guard)
            except OSError as error:
                self._fail("StartFailed", f"{replica} could not be started: {error}", replica)
                return
            slot.process, slot.stop_asked, slot.reason = process, False, ""
            slot.restarts += 1
            slot.tail.clear()
            self._selector.register(process.out_fd, selectors.EVENT_READ, partial(self._on_output, slot))
            self._selector.register(process.exit_fd, selectors.EVENT_READ, partial(self._on_exit, slot))
            self._report(slot, ReplicaState.PENDING)
        self._see_starts()

    def _watch_starts(self) -> None:
        """Look for replicas that have come up; often at first, for that is when they do."""
        waiting = [slot for slot in self._running() if slot.state is ReplicaState.PENDING]
        if waiting:
            self._see_starts()
        age = max((time.time() - slot.process.started for slot in waiting if slot.process), default=0.0)
        self._after(0.1 if age < 60 else 1.0, self._watch_starts)

    def _see_starts(self) -> None:
        waiting = {slot: slot.process for slot in self._running() if slot.state is ReplicaState.PENDING}
        alone = len([command for command in self._commands.values() if command.port]) < 2
        by_port = self._options.started == "port" and not alone
        wanted = {slot: p.command.port for slot, p in waiting.items() if p and p.command.port and by_port}
        open_ports = self._open_ports([port for port in wanted.values() if port])
        for slot in waiting:
            if slot not in wanted or wanted[slot] in open_ports:
                self._report(slot, ReplicaState.RUNNING)
        up = (ReplicaState.RUNNING, ReplicaState.SUCCEEDED)
        if self._phase is _Phase.ACTIVE and all(slot.state in up for slot in self._slots.values()):
            self._tell(State.RUNNING)

    def _open_ports(self, wanted: list[int]) -> set[int]:
        self._looks += 1
        return ports.serving(wanted, reached=self._looks % _REACHED_LOOKS == 0) if wanted else set()

    # --- what happens

    def _on_output(self, slot: _Slot) -> None:
        if slot.process:
            self._lines(slot, slot.process.lines())
            if slot.process.at_end:  # closed by the program, which may go on
                self._selector.unregister(slot.process.out_fd)

    def _lines(self, slot: _Slot, lines: list[bytes]) -> None:
        at = time.time()
        slot.tail.extend(line[:4096] for line in lines)
        self._queue.extend(LogLine(at, slot.replica, line) for line in lines)

    def _on_exit(self, slot: _Slot) -> None:
        process = slot.process
        ended = process.ended() if process else None
        if process is None or ended is None:
            return
        for fd in (process.out_fd, process.exit_fd):
            if fd in self._selector.get_map():
                self._selector.unregister(fd)
        self._lines(slot, process.drain())
        young = time.time() - process.started < 60
        slot.reason = slot.reason or symptom(
            ended.exit_code, list(slot.tail), has_port=bool(process.command.port) and young
        )
        slot.process = None
        self._report(slot, _end_state(slot, ended), ended)
        if self._phase is _Phase.ACTIVE and not slot.stop_asked:
            self._judge(slot, ended.exit_code)
        self._go_on()

    def _on_wake(self) -> None:
        os.read(self._wake_read, 1024)
        if self._phase is not _Phase.FAILING:
            self._phase = _Phase.STOPPING
            self._outcome = JobChanged(at=0, state=State.CANCELLED, reason="Stopped")
        self._end_all()
        for slot in self._running() if self._stops > 1 else ():  # both may have come before we looked
            if slot.process:
                slot.process.kill()

    def _watch_memory(self) -> None:
        for slot in self._running():
            process = slot.process
            if process and process.command.memory_limit and process.memory() > process.command.memory_limit:
                slot.reason = "OOMKilled"
                process.kill()
        if any(command.memory_limit for command in self._commands.values()):
            self._after(_MEMORY_SECONDS, self._watch_memory)

    # --- deciding

    def _judge(self, slot: _Slot, exit_code: int) -> None:
        """Decide on an end that nobody asked for, once it is clear who failed first."""
        if exit_code and slot.reason == "PortTaken" and self._port_tries < _PORT_TRIES:
            self._port_tries += 1
            members = frozenset(replica for replica, command in self._commands.items() if command.port)
            self._restart(members, 0.0, new_ports=True, why=f"{slot.replica} found its port taken")
        elif exit_code and slot.reason == "PeerLost" and self._others_may_have_failed(slot):
            self._parked.append((slot, exit_code))
            self._after(_SETTLE_SECONDS, self._unpark)
        else:
            self._parked.clear()
            self._decide(slot, exit_code)

    def _others_may_have_failed(self, slot: _Slot) -> bool:
        parked = {each for each, _ in self._parked}
        return any(
            other not in parked for other in self._running() if other is not slot and other.replica.role != "evaluator"
        )

    def _unpark(self) -> None:
        if self._parked and self._phase is _Phase.ACTIVE:
            slot, exit_code = self._parked[0]
            self._parked.clear()
            self._decide(slot, exit_code)
            self._go_on()

    def _decide(self, slot: _Slot, exit_code: int) -> None:
        states = {replica: each.state for replica, each in self._slots.items()}
        decision = self._referee.judge(slot.replica, exit_code, slot.reason, states)
        match decision:
            case restarts.Succeed():
                self._finish()
            case restarts.Fail(reason, message):
                self._fail(reason, message, slot.replica)
            case restarts.Restart(replicas, count):
                new_ports = self._job.how == "multi_worker_mirrored"
                why = f"{slot.replica} ended with exit code {exit_code}; restart {count} of {self._job.backoff}"
                self._restart(replicas, restarts.delay(count), new_ports=new_ports, why=why)

    def _restart(self, replicas: frozenset[Replica], delay: float, *, new_ports: bool, why: str) -> None:
        self._groups = [group for group in self._groups if not group[0] <= replicas]
        self._groups.append((replicas, delay, new_ports))
        self._tell(State.RESTARTING, message=f"{why}.")
        for replica in replicas:
            self._ask_to_end(self._slots[replica])

    def _go_on(self) -> None:
        """Start what has waited for the last of its group to end."""
        if self._phase is not _Phase.ACTIVE:
            self._end_servers()
            return
        ready = [group for group in self._groups if not any(self._slots[replica].process for replica in group[0])]
        for group in ready:
            self._groups.remove(group)
            replicas, delay, new_ports = group
            for replica in sorted(replicas):
                self._report(self._slots[replica], ReplicaState.RESTARTING)
            self._after(delay, partial(self._start_again, replicas, new_ports=new_ports))

    def _start_again(self, replicas: frozenset[Replica], *, new_ports: bool) -> None:
        if self._phase is _Phase.ACTIVE:
            if new_ports:
                self._commands = self._make_commands()
            self._spawn(
                [replica for replica in self._slots if replica in replicas and not self._slots[replica].process]
            )

    # --- ending

    def _finish(self) -> None:
        """Let the others leave: servers have no end of their own, the rest gets some time."""
        self._phase = _Phase.FINISHING
        if self._job.how == "parameter_server":
            for slot in self._running():
                if slot.replica.role in ("ps", "worker"):
                    self._ask_to_end(slot)
        self._after(self._options.finish, self._end_all)

    def _end_servers(self) -> None:
        """End the parameter servers once nobody needs them: those of between-graph jobs must outlive the workers."""
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

    def _ask_to_end(self, slot: _Slot) -> None:
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
            while slot.process.ended() is None:
                time.sleep(0.001)
            slot.process.drain()
            slot.process = None
        os.close(self._wake_read)
        wake, self._wake_write = self._wake_write, -1
        os.close(wake)

    # --- telling

    def _tell(self, state: State, reason: str = "", message: str = "") -> None:
        if state is not self._job_state or message:
            self._queue.append(JobChanged(at=time.time(), state=state, reason=reason, message=message))
        self._job_state = state

    def _report(self, slot: _Slot, state: ReplicaState, ended: Ended | None = None) -> None:
        slot.state = state
        self._queue.append(
            ReplicaChanged(
                at=time.time(),
                replica=slot.replica,
                state=state,
                restarts=max(slot.restarts, 0),
                exit_code=ended.exit_code if ended else None,
                reason=slot.reason,
                place=slot.place,
                cpu_seconds=ended.cpu_seconds if ended else None,
                memory_bytes=ended.memory_bytes if ended else None,
            )
        )


def _end_state(slot: _Slot, ended: Ended) -> ReplicaState:
    if ended.exit_code == 0:
        return ReplicaState.SUCCEEDED
    return ReplicaState.STOPPED if slot.stop_asked else ReplicaState.FAILED
