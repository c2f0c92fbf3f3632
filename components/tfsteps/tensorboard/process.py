"""TensorBoard as a child process: without TensorFlow, on a port of its own, never left behind.

It has one log directory for the event files of several runs: a folder of links, each named as it shows it.
"""

import contextlib
import importlib.util
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from typing import Self

from tfsteps.spec import is_uri

_START_SECONDS = 60.0
_GRACE_SECONDS = 5.0


class TensorBoardError(Exception):
    """TensorBoard could not be started; the message says what to do."""


class TensorBoardProcess:
    """A TensorBoard that is up for the length of a `with` block, and no longer than this process lives.

    Attributes:
        url: Its address; empty = it is not up, or has failed.
    """

    def __init__(
        self,
        log_dirs: str | os.PathLike[str] | Mapping[str, str],
        port: int = 0,
        host: str = "127.0.0.1",
        on_failure: Callable[[TensorBoardError], object] | None = None,
    ) -> None:
        """Prepare; nothing is started.

        Args:
            log_dirs: Folder of the event files, or its URI; it need not exist yet. Or several, by the name that
                TensorBoard shows for each.
            port: Port to listen on; 0 = any that is free.
            host: Address to listen on. TensorBoard needs no password.
            on_failure: Do not wait for the start, which takes a second or two. Called in a thread of its own if it
                fails. None = wait.
        """
        self.url = ""
        by_name = log_dirs if isinstance(log_dirs, Mapping) else {"": os.fspath(log_dirs)}
        self._log_dirs = {
            name: folder if is_uri(folder) else os.path.abspath(folder)  # noqa: PTH100  keeps text
            for name, folder in by_name.items()
        }
        self._port = port
        self._host = host
        self._on_failure = on_failure
        self._closing = False

    def __enter__(self) -> Self:
        """Start it, and wait until it answers unless there is an `on_failure`.

        Raises:
            TensorBoardError: It is not installed, its port is taken, or it does not start.
        """
        if importlib.util.find_spec("tensorboard") is None:
            raise TensorBoardError("TensorBoard is not installed; run `pip install tensorboard`")
        if self._on_failure and not self._port:
            self._port = _free_port(self._host)  # the address is needed before TensorBoard can tell it
        self._links = tempfile.TemporaryDirectory(prefix="tfsteps-runs-")
        options = arguments(self._log_dirs, pathlib.Path(self._links.name))
        self._process = subprocess.Popen(
            # -P: a file of the current folder that is called like a module of TensorBoard must not be taken for it.
            [sys.executable, "-P", "-m", "tfsteps.tensorboard.server", self._host, str(self._port), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for us; it ends when we say so
        )
        if self._on_failure:
            self.url = f"http://{self._host}:{self._port}/"
            threading.Thread(target=self._check, args=[self._on_failure], name="tensorboard", daemon=True).start()
            return self
        try:
            self.url = self._answer()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End it and its data server: SIGTERM, and after 5 seconds SIGKILL."""
        self._closing = True
        self._signal(signal.SIGTERM)
        give_up = time.monotonic() + _GRACE_SECONDS
        # WNOWAIT: until it is reaped, nobody else can get its id, so that the second signal cannot hit a stranger.
        while os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if time.monotonic() > give_up:
                break
            time.sleep(0.01)
        self._signal(signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, None if self._on_failure else self._process.stdout):
            if pipe:
                pipe.close()
        self._links.cleanup()
        self.url = ""

    def _check(self, on_failure: Callable[[TensorBoardError], object]) -> None:
        """Wait for the answer of a start that nobody waits for."""
        assert self._process.stdout
        with self._process.stdout:
            try:
                self._answer()
            except TensorBoardError as error:
                if not self._closing:
                    self.url = ""
                    on_failure(error)

    def _answer(self) -> str:
        """Return the address. TensorBoardError if there is none."""
        assert self._process.stdout
        where = f"TensorBoard over {', '.join(self._log_dirs.values())}"
        if not select.select([self._process.stdout], [], [], _START_SECONDS)[0]:
            raise TensorBoardError(f"{where} did not start within {_START_SECONDS:.0f} s; start it by hand to see why")
        kind, _, text = self._process.stdout.readline().decode(errors="replace").strip().partition(" ")
        if kind == "url":
            return text
        free = "; choose another port, or 0 for any that is free" if self._port else ""
        raise TensorBoardError(f"{where} did not start: {text or 'it exited and printed nothing'}{free}")

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def _free_port(host: str) -> int:
    """Return an unused port. Another program may still take it first, which is a failure of the start."""
    with socket.create_server((host, 0)) as server:
        return int(server.getsockname()[1])


def arguments(log_dirs: Mapping[str, str], links: pathlib.Path) -> list[str]:
    """Return the arguments of TensorBoard that make it show some log directories.

    Args:
        log_dirs: Folders or URIs by the name that they get in TensorBoard. A single one may have an empty name: then
            its subfolders are the runs.
        links: Folder for links; it is created if it is needed.

    Raises:
        OSError: The links cannot be created.
    """
    if list(log_dirs) == [""]:
        (log_dir,) = log_dirs.values()
        # The data server reads gs:// too, but not with the credentials of a service account.
        return ["--logdir", log_dir, *(["--load_fast=false"] if is_uri(log_dir) else [])]
    if any(map(is_uri, log_dirs.values())):
        return ["--logdir_spec", ",".join(f"{name}:{log_dir}" for name, log_dir in log_dirs.items())]
    for name, log_dir in log_dirs.items():
        link = links / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(log_dir)
    return ["--logdir", str(links)]
