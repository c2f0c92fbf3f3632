"""The agent of one rank: starts and stops the user's program on the coordinator's commands."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from .coordinator import Coordinator
from .manager import Manager
from .wire import JsonConnection, address, free_port, replicas, say, secret, whose

if TYPE_CHECKING:
    from collections.abc import Callable

_POLL_SECONDS = 0.2
_RETRY_SECONDS = 0.5
_ANSWER_SECONDS = 10.0  # timeout for the coordinator to accept the connection and to send a welcome
_LEAVE_SECONDS = 10.0
_REMEMBER_SECONDS = 5.0  # timeout for the manager to store the program's number, after the program has ended
_SUSPENDED_REMEMBER_SECONDS = 3.0  # the same in a suspension, which lasts at most 10 more seconds
_LONGEST = 1 << 20  # bytes of a line from the coordinator: the addresses of 10,000 ranks
_REQUIRED = ("TFSTEPS_PLAN", "TFSTEPS_SECRET", "MASTER_ADDR", "MASTER_PORT")
_USAGE = 2  # ExitCode.USAGE: only this folder is on a rank
_OURS = ("TFSTEPS_AGENT", "TFSTEPS_PLAN", "TFSTEPS_SECRET")
_RESERVED = "TFSTEPS_"  # prefix of the variables that a job cannot declare


class Agent:
    """The program of one rank, and the connection to the coordinator."""

    def __init__(
        self, plan: dict[str, Any], rank: int, folder: str, expand_program: Callable[..., tuple[list[str], Any]]
    ) -> None:
        """Determine the replica of this rank. `folder` belongs to this rank and contains the program's modules."""
        self._plan = plan
        self._expand_program = expand_program
        self._rank = rank
        self._role, self._index = replicas(plan)[rank]
        self._name = f"{self._role}-{self._index}"
        self._program: subprocess.Popen[bytes] | None = None
        self._stop_asked = False
        self._kill_at = 0.0
        self._silent_until = time.monotonic() + plan["silence"]
        self._folder = folder
        self._notice = pathlib.Path(folder, "suspended")
        self._remember_file = pathlib.Path(folder, "remembered")
        self._remembered: int | None = None
        self._manager = Manager()
        self._ends: list[tuple[int, Any]] = []  # wait status and resource usage of a program that has ended
        self._woken, self._wake = os.pipe()

    def run(self) -> int:
        """Execute the coordinator's commands until it sends an exit code, and return the code."""
        say(event="begun", replica=self._name, id=os.environ.get("MARSV2_TASK_ID", ""), host=socket.gethostname())
        line, messages = self._join()
        selector = selectors.DefaultSelector()
        selector.register(line.connection, selectors.EVENT_READ)
        selector.register(self._woken, selectors.EVENT_READ)
        while True:
            for message in messages:
                if "exit" in message:
                    return self._leave(int(message["exit"]))
                self._obey(message)
            self._check()
            ready = [key.fileobj for key, _ in selector.select(_POLL_SECONDS)]
            if self._woken in ready:
                os.read(self._woken, 1)
                self._tell_end(line, *self._ends.pop())
            try:
                messages = line.receive() if line.connection in ready else []
            except ConnectionError:
                return self._orphaned()

    def _check(self) -> None:
        """Report the program's number, kill a program after its grace period, and print a line for a silent ps.

        A parameter server prints nothing, and the platform regards a rank without output as hung.
        """
        self._report_number()
        if self._stop_asked and time.monotonic() > self._kill_at:
            self._kill()
        if self._role == "ps" and time.monotonic() > self._silent_until:
            self._silent_until = time.monotonic() + self._plan["silence"]
            say(event="alive", replica=self._name)

    def _report_number(self) -> None:
        """Report the number that the program stored by `remember`, if it is new."""
        with contextlib.suppress(OSError, ValueError):  # most programs store no number
            number = int(self._remember_file.read_text())
            if number != self._remembered:
                self._remembered = number
                self._manager.report("set_whole_life_state", whole_life_state=number)

    def _join(self) -> tuple[JsonConnection, list[dict[str, Any]]]:
        """Return the connection to the coordinator, which may start later, and the messages received so far.

        Every error is retried until the coordinator sends a welcome: another program may have its address.
        """
        port = free_port()
        while True:
            with contextlib.suppress(OSError):
                return self._welcomed(port)
            time.sleep(_RETRY_SECONDS)

    def _welcomed(self, port: int) -> tuple[JsonConnection, list[dict[str, Any]]]:
        """Connect, and send the address of TensorFlow on this rank. OSError if the peer is not the coordinator."""
        coordinator = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        line = JsonConnection(socket.create_connection(coordinator, _ANSWER_SECONDS), _LONGEST)
        listen_address = address(line.connection.getsockname()[0], port)
        line.send(rank=self._rank, secret=secret(), task=whose(), address=listen_address)
        welcome, *messages = line.receive() or [{}]
        if welcome != {"welcome": True}:
            raise ConnectionError("not the coordinator")
        return line, messages

    def _obey(self, message: dict[str, Any]) -> None:
        if "start" in message:
            self._start(message["start"])
        elif "stop" in message:
            self._stop(message["stop"])
        elif "notice" in message:
            self._notice.touch()
            say(event="notice", replica=self._name)
        elif "terminate" in message:
            self._signal(signal.SIGTERM)

    def _start(self, cluster: dict[str, list[str]]) -> None:
        role = self._plan["roles"][self._role]
        self._stop_asked = False
        command, variables = self._expand_program(role["command"], *self._variables(role, cluster))
        try:
            self._program = subprocess.Popen(
                command,
                env=self._environment(variables, cluster),
                cwd=role["dir"] or None,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            print(f"{command[0]} could not be started: {error}", file=sys.stderr, flush=True)  # noqa: T201
            self._program = subprocess.Popen(["sh", "-c", "exit 127"])
        threading.Thread(target=self._wait, args=(self._program.pid,), daemon=True).start()
        say(event="started", replica=self._name, pid=self._program.pid)

    def _wait(self, pid: int) -> None:
        """Wait in a thread for the program's end, to report it quickly: peers fail soon after the first failure."""
        _, status, usage = os.wait4(pid, 0)
        self._ends.append((status, usage))
        os.write(self._wake, b"!")

    def _variables(self, role: dict[str, Any], cluster: dict[str, list[str]]) -> tuple[dict[str, str], dict[str, str]]:
        """Return the variables of tfsteps, and those that job and role declare."""
        task = {"type": self._role, "index": self._index}
        ours = {
            "TF_CONFIG": json.dumps({"cluster": cluster, "task": task, "environment": "cloud"}),
            "TFSTEPS_ROLE": self._role,
            "TFSTEPS_INDEX": str(self._index),
            "TFSTEPS_SUSPEND_FILE": str(self._notice),
            "TFSTEPS_REMEMBER_FILE": str(self._remember_file),
        }
        declared: dict[str, str] = {}
        for name, value in {**self._plan["env"], **role["env"]}.items():
            (ours if name.startswith(_RESERVED) else declared)[name] = value
        return ours, declared

    def _environment(self, variables: dict[str, str], cluster: dict[str, list[str]]) -> dict[str, str]:
        env = {key: value for key, value in os.environ.items() if key not in _OURS}
        env.setdefault("PYTHONUNBUFFERED", "1")
        env.update(variables)
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [self._folder, env.get("PYTHONPATH")]))
        hosts = {member.rpartition(":")[0].strip("[]") for group in cluster.values() for member in group}
        for key in ("no_proxy", "NO_PROXY"):  # a proxy in the environment makes gRPC hang
            env[key] = ",".join(filter(None, [env.get(key), *sorted(hosts)]))
        return env

    def _tell_end(self, line: JsonConnection, status: int, usage: Any) -> None:
        """Report the end of the program to coordinator and launcher."""
        assert self._program
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        self._signal(signal.SIGKILL)  # remaining processes of its session
        self._program.returncode = code
        self._program = None
        cpu, memory = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
        suspended = self._notice.exists()
        event = "stopped" if suspended or (self._stop_asked and code) else "ended"
        say(event=event, replica=self._name, code=code, cpu=round(cpu, 2), memory=memory)
        self._report_number()
        if suspended:  # the platform ends all pods once all programs have ended
            self._manager.wait(_SUSPENDED_REMEMBER_SECONDS)
        line.send(ended=code, stopped=self._stop_asked)

    def _stop(self, grace: float) -> None:
        if not self._stop_asked:
            self._stop_asked, self._kill_at = True, time.monotonic() + grace
            self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        if self._program:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._program.pid, number)

    def _kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _leave(self, code: int) -> int:
        self._kill()
        self._report_number()
        self._manager.wait(_REMEMBER_SECONDS)
        return code

    def _orphaned(self) -> int:
        """End this rank because rank 0 has ended; normally the platform ends the task."""
        self._signal(signal.SIGTERM)
        time.sleep(_LEAVE_SECONDS)
        self._kill()
        return 128 + signal.SIGTERM


def main(
    folder: str,
    restart_policy: Callable[[dict[str, Any]], Any],
    expand_program: Callable[..., tuple[list[str], Any]],
) -> int:
    """Run one rank, and on rank 0 the coordinator too; return the exit code.

    Environment: TFSTEPS_PLAN and TFSTEPS_SECRET, of `schema.py`; the platform's MASTER_ADDR, MASTER_PORT, RANK,
    CHAIN_ID, MARSV2_*.

    Args:
        folder: The folder of this rank, in which this package was unpacked. It is removed.
        restart_policy: The class in `restart_policy.py`, which is in the same zip file.
        expand_program: The function in `expansion.py`, likewise.
    """
    rank_variable = "RANK" if os.environ.get("RANK") else "MARSV2_RANK"
    try:
        missing = [name for name in (*_REQUIRED, rank_variable) if not os.environ.get(name)]
        if missing:
            names = ", ".join(missing)
            sys.stderr.write(f"tfsteps: this rank cannot start, because the platform has not set {names}\n")
            return _USAGE
        plan, rank = json.loads(os.environ["TFSTEPS_PLAN"]), int(os.environ[rank_variable])
        if rank == 0:
            threading.Thread(target=Coordinator(plan, restart_policy).run, daemon=True).start()
        return Agent(plan, rank, folder, expand_program).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
