"""Forks launchers from a process that has their modules loaded, so that a step starts in milliseconds. Needs no kfp.

The server has one thread and holds nothing but modules. For each step the client sends it three files: a socket of the
step's own, the pipe for its output, and the guard's pipe. Over that socket goes one line of JSON, what to run; then the
numbers of signals, a byte each; back comes `<pid> <exit code>` when it has ended.
"""

import contextlib
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import msgspec

from tfsteps.runs.status import Status

_STEPS = ("train", "launch", "wait", "cleanup", "evaluate_gate")
_MODULES = (
    *(f"steps.{step}.launcher" for step in _STEPS),
    "launcher.background",
    "systems.local.job_system",
    "launcher.metrics",
    "report",
)
_PACKAGE = "tfsteps"


class Preloaded:
    """The server, started when the first step asks for it, and ended with the `with` block or this process."""

    def __enter__(self) -> Self:
        self._server: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._control, self._theirs = socket.socketpair()
        return self

    def __exit__(self, *_: object) -> None:
        self._control.close()
        self._theirs.close()
        if self._server:
            self._server.wait()

    def takes(self, command: Sequence[str]) -> bool:
        """Tell whether `command` starts one of our launchers."""
        start, module = list(command[:2]), command[2:3]
        ours = [f"{_PACKAGE}.{name}" for name in _MODULES if name.endswith(".launcher")]
        return start == ["python", "-m"] and bool(module) and module[0] in ours

    def start(self, command: Sequence[str], env: Mapping[str, str], cwd: str, output: int, guard: int) -> socket.socket:
        """Start the launcher that `command` names and return the socket for its signals and its end.

        Args:
            command: One that it takes.
            env: Its whole environment.
            cwd: Where it starts.
            output: File that its standard output and error go to.
            guard: The guard's pipe.
        """
        with self._lock:
            self._server = self._server or self._started()
            ours, theirs = socket.socketpair()
            with theirs:
                socket.send_fds(self._control, [b"+"], [theirs.fileno(), output, guard])
        ours.sendall(json.dumps([command[2], list(command[3:]), dict(env), cwd]).encode() + b"\n")
        return ours

    def _started(self) -> subprocess.Popen[bytes]:
        server = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(self._theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[self._theirs.fileno()],
            start_new_session=True,  # Ctrl-C is for the pipeline
        )
        self._theirs.close()
        return server


# --- the server


def _serve(control: socket.socket) -> None:
    """Fork and reap until the client is gone. What it left running, the guard ends."""
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not control:
                    key.data()
                elif not _begin(control, selector):
                    return


def _begin(control: socket.socket, selector: selectors.BaseSelector) -> bool:
    """Fork one step and follow it. False if the client is gone."""
    message, files, *_ = socket.recv_fds(control, 1, 3)
    if not message:
        return False
    connection, output, guard = socket.socket(fileno=files[0]), files[1], files[2]
    with connection.makefile("rb", buffering=0) as lines:
        module, arguments, env, cwd = json.loads(lines.readline())
    pid = os.fork()
    if not pid:
        _become(output, guard, cwd, env, lambda: importlib.import_module(module).main(arguments))
    os.close(output)
    os.close(guard)
    _follow(pid, connection, selector)
    return True


def _follow(pid: int, connection: socket.socket, selector: selectors.BaseSelector) -> None:
    ended = os.pidfd_open(pid)

    def end() -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)  # before it is reaped: until then nobody else can get its id
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        selector.unregister(ended)
        os.close(ended)
        with contextlib.suppress(KeyError):
            selector.unregister(connection)
        with connection, contextlib.suppress(OSError):
            connection.sendall(f"{pid} {code}".encode())

    def pass_on() -> None:
        numbers = connection.recv(16)
        if not numbers:
            selector.unregister(connection)
        for number in numbers:
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if number == signal.SIGKILL else os.kill)(pid, number)

    selector.register(ended, selectors.EVENT_READ, end)
    selector.register(connection, selectors.EVENT_READ, pass_on)


def _become(output: int, guard: int, cwd: str, env: Mapping[str, str], main: Callable[[], Any]) -> None:
    """Turn this fork into the step; never returns."""
    code = 1
    try:
        os.setsid()
        os.write(guard, f"+ {os.getpid()}\n".encode())
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        code = main()
    except BaseException:  # noqa: BLE001  whatever it was, this process must not go on as a server
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _load() -> None:
    """Import what launchers need, and use it once: types are worked out when they are first met."""
    for name in _MODULES:
        importlib.import_module(f"{_PACKAGE}.{name}")
    from tfsteps import spec  # noqa: PLC0415  the client needs none of it
    from tfsteps.runs import identity  # noqa: PLC0415
    from tfsteps.systems import registry  # noqa: PLC0415

    spec.from_plain({"name": "warm", "command": ["true"], "roles": {"worker": {}}}, "warm-up", registry.options())
    status = Status(identity=identity.Identity(run="r", task="t"), job="warm", system="local")
    msgspec.json.decode(msgspec.json.encode(status), type=Status)


if __name__ == "__main__":
    _load()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    with socket.socket(fileno=int(sys.argv[1])) as given:
        _serve(given)
    os._exit(0)
