"""TensorBoard as a child process: without TensorFlow, on a port of its own, never left behind."""

import contextlib
import importlib.util
import os
import select
import signal
import subprocess
import sys
import time
from typing import Self

from tfsteps.spec import is_uri

_START_SECONDS = 60.0
_GRACE_SECONDS = 5.0


class TensorBoardError(Exception):
    """TensorBoard could not be started; the message says what to do."""


class TensorBoard:
    """A TensorBoard that is up for the length of a `with` block, and no longer than this process lives.

    Attributes:
        url: Its address; empty before it is up.
    """

    def __init__(self, log_dir: str | os.PathLike[str], port: int = 0, host: str = "127.0.0.1") -> None:
        """Prepare; nothing is started.

        Args:
            log_dir: Folder of the event files, or its URI; it need not exist yet.
            port: Port to listen on; 0 = any that is free.
            host: Address to listen on. TensorBoard asks nobody for a password.
        """
        self.url = ""
        folder = os.fspath(log_dir)
        self._log_dir = folder if is_uri(folder) else os.path.abspath(folder)  # noqa: PTH100  keeps text
        self._port = port
        self._host = host

    def __enter__(self) -> Self:
        """Start it, and wait until it answers: about a second.

        Raises:
            TensorBoardError: It is not installed, its port is taken, or it does not start.
        """
        if importlib.util.find_spec("tensorboard") is None:
            raise TensorBoardError("TensorBoard is not installed; run `pip install tensorboard`")
        self._process = subprocess.Popen(
            # -P: a file of the current folder that is called like a module of TensorBoard must not be taken for it.
            [sys.executable, "-P", "-m", "tfsteps.tensorboard.server", self._log_dir, self._host, str(self._port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for us; it ends when we say so
        )
        try:
            self.url = self._answer()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End it and its data server: SIGTERM, and after 5 seconds SIGKILL."""
        self._signal(signal.SIGTERM)
        give_up = time.monotonic() + _GRACE_SECONDS
        # WNOWAIT: until it is reaped, nobody else can get its id, so that the second signal cannot hit a stranger.
        while os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if time.monotonic() > give_up:
                break
            time.sleep(0.01)
        self._signal(signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()
        self.url = ""

    def _answer(self) -> str:
        """Return the address. TensorBoardError if there is none."""
        assert self._process.stdout
        where = f"TensorBoard over {self._log_dir}"
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
