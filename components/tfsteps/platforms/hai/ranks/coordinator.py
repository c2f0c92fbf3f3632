"""Sends every rank its commands: start, stop, exit. Runs on rank 0."""

from __future__ import annotations

import math
import os
import signal
import time
import traceback
from typing import TYPE_CHECKING, Any

from .manager import Flag, Manager
from .wire import Listener, replicas, say

if TYPE_CHECKING:
    from collections.abc import Callable

_POLL_SECONDS = 0.05
_SETTLE_SECONDS = 1.0  # other replicas may succeed this long after the decisive one
_LEAVE_SECONDS = 60.0  # time for the platform to end the pods after the coordinator has reported


class Coordinator:
    """Sends every rank its commands: start, stop, exit. Runs on rank 0."""

    def __init__(self, plan: dict[str, Any], restart_policy: Callable[[dict[str, Any]], Any]) -> None:
        """Open the port for the ranks. `restart_policy` creates a `RestartPolicy` from the plan."""
        self._plan = plan
        self._restart_policy = restart_policy(plan)
        self._ranks = replicas(plan)
        self._listener = Listener(int(os.environ["MASTER_PORT"]), len(self._ranks))
        self._manager = Manager()
        self._addresses: dict[int, str] = {}
        self._running: set[int] = set()
        self._done: set[int] = set()  # ranks whose program has succeeded
        self._again: list[tuple[set[int], float]] = []  # (ranks that restart after all of them have ended, delay)
        self._timers: list[tuple[float, set[int]]] = []
        self._phase = "active"
        self._end_at = self._servers_end_at = self._sigterm_at = 0.0
        self._flag = Flag()

    def run(self) -> None:
        """Run until the process ends. An internal error ends the process, because ranks wait for the coordinator."""
        try:
            self._loop()
        except Exception:  # noqa: BLE001
            traceback.print_exc()
            os._exit(1)

    def _loop(self) -> None:
        while True:
            for rank, message in self._listener.receive(_POLL_SECONDS):
                if "ended" in message:
                    self._ended(rank, message["ended"], stopped=message["stopped"])
                else:
                    self._joined(rank, message["address"])
            self._tick()

    @property
    def _complete(self) -> bool:
        return len(self._addresses) == len(self._ranks)

    def _joined(self, rank: int, address: str) -> None:
        """Register a rank; start all ranks after the last has joined. After a lost connection a rank joins again."""
        was_complete = self._complete
        self._addresses[rank] = address
        if self._complete:
            self._start({rank} & self._running if was_complete else set(range(len(self._ranks))))

    def _start(self, ranks: set[int]) -> None:
        cluster: dict[str, list[str]] = {}
        for rank, (role, _) in enumerate(self._ranks):
            if role != "evaluator":
                cluster.setdefault(role, []).append(self._addresses[rank])
        for rank in sorted(ranks):
            self._running.add(rank)
            self._listener.send(rank, start=cluster)

    # --- ends of programs

    def _ended(self, rank: int, code: int, *, stopped: bool) -> None:
        if rank not in self._running:
            return
        self._running.remove(rank)
        awaited = any(rank in group for group, _ in self._again)  # it ended by itself before the stop
        if self._phase == "active" and not stopped and not awaited:
            if code == 0:
                self._done.add(rank)
            self._decide(rank, code)
        self._continue()

    def _decide(self, rank: int, code: int) -> None:
        """Apply the restart policy to a program that ended by itself."""
        succeeded = {self._ranks[done] for done in self._done}
        decision = self._restart_policy.judge(self._ranks[rank], code, succeeded)
        if decision.action == "succeed":
            self._finish()
        elif decision.action == "fail":
            self._fail(rank, code or 1, decision.reason, decision.message)
        elif decision.action == "restart":
            group = {other for other, member in enumerate(self._ranks) if member in decision.members}
            say(event="again", why=f"{decision.message}.")
            self._stop(group)
            self._again = [waiting for waiting in self._again if not waiting[0] <= group]
            self._again.append((group, decision.delay))

    def _fail(self, rank: int, code: int, reason: str, message: str) -> None:
        """End the failed rank with its program's exit code; the platform then ends all ranks."""
        say(event="failed", replica=self._name(rank), reason=reason, message=f"{message}.")
        self._phase, self._end_at = "failing", time.monotonic() + _LEAVE_SECONDS
        self._stop(set(self._running))
        self._listener.send(rank, exit=code)

    def _finish(self) -> None:
        """Wait for the other replicas to end; parameter servers never end by themselves and are stopped earlier."""
        self._phase, now = "finishing", time.monotonic()
        self._end_at = now + self._plan["finish"]
        self._servers_end_at = now + _SETTLE_SECONDS

    # --- next actions

    def _continue(self) -> None:
        """Do what was waiting for the end of a group of programs."""
        if self._phase == "active":
            ready = [waiting for waiting in self._again if not waiting[0] & self._running]
            self._again = [waiting for waiting in self._again if waiting not in ready]
            self._timers += [(time.monotonic() + pause, group) for group, pause in ready]
        elif self._phase == "finishing" and not self._running & self._of("worker"):
            self._stop(self._of("ps"))  # in between-graph replication they must outlive the workers

    def _tick(self) -> None:
        now = time.monotonic()
        due = [group for at, group in self._timers if at <= now]
        self._timers = [timer for timer in self._timers if timer[0] > now]
        for group in due if self._phase == "active" else ():
            self._done -= group
            self._start(group)
        if self._phase == "active" and self._complete and self._flag.up():
            self._suspend()
        elif self._phase == "finishing":
            self._finishing(now)
        elif self._phase == "failing" and now > self._end_at:
            self._leave(128 + signal.SIGTERM)
        elif self._phase == "suspending":
            self._suspending(now)

    def _finishing(self, now: float) -> None:
        if now > self._servers_end_at and self._plan["strategy"] == "parameter_server":
            self._stop(self._of("ps", "worker"))  # in this strategy workers only serve the chief
        if now > self._end_at:
            self._stop(set(self._running))
        if not self._running:
            self._leave(0)

    def _suspend(self) -> None:
        """Forward the suspension notice: every rank creates a file at once, and sends SIGTERM some seconds later.

        No SIGTERM is sent if a program has attached the platform's flag: the platform sends none either, and such a
        program relies on that on every rank. The answer to the manager keeps the pods for the whole notice period.
        """
        self._phase, self._end_at = "suspending", 0.0
        self._sigterm_at = math.inf if self._flag.polled else time.monotonic() + self._plan["sigterm_delay"]
        self._manager.report("receive_suspend_command")
        for rank in range(len(self._ranks)):
            self._listener.send(rank, notice=True)

    def _suspending(self, now: float) -> None:
        """Report when all programs have ended, so that the platform ends the pods and queues the task again."""
        if now > self._sigterm_at:
            self._sigterm_at = math.inf
            for rank in self._running:
                self._listener.send(rank, terminate=True)
        if not self._running and not self._end_at:
            self._end_at = now + _LEAVE_SECONDS
            say(event="leaving", replica=self._name(0))
            self._manager.report("go_suspend")
        elif self._end_at and now > self._end_at:
            self._leave(128 + signal.SIGTERM)

    def _leave(self, code: int) -> None:
        """Send every rank the command to exit, rank 0 last."""
        self._phase = "left"
        for rank in reversed(range(len(self._ranks))):
            self._listener.send(rank, exit=code)

    def _stop(self, ranks: set[int]) -> None:
        for rank in ranks & self._running:
            self._listener.send(rank, stop=self._plan["grace"])

    # --- names

    def _of(self, *roles: str) -> set[int]:
        return {rank for rank, (role, _) in enumerate(self._ranks) if role in roles}

    def _name(self, rank: int) -> str:
        return "{}-{}".format(*self._ranks[rank])
