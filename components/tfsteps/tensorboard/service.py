"""The program of a TensorBoard on a cluster: `python -m tfsteps.tensorboard.service LOG_DIR [LOG_DIR...]`.

It serves until it is idle or its data is old, and exits with 0 then, so that its Job is complete. All other ends have
another exit code, so that Kubernetes starts it again. `GET /healthz` answers 200 and does not count as
activity. With `--no-server` it only waits until the data is old: something else serves, which its Job owns.
"""

import argparse
import math
import os
import pathlib
import signal
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.spec import is_uri
from tfsteps.tensorboard.address import HEALTH, PORT
from tfsteps.tensorboard.event_files import EventFileGrowth, file_sizes
from tfsteps.tensorboard.object_store import set_endpoints, sizes_below
from tfsteps.tensorboard.process import arguments
from tfsteps.text import streams

_LONGEST_PAUSE = 15.0  # seconds between two looks at the event files
_TERMINATED = 128 + signal.SIGTERM
_Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Lifetime(msgspec.Struct, kw_only=True):
    """The last signs of use of a TensorBoard; all times are seconds of one monotonic clock.

    Attributes:
        idle: Seconds without a request and without new event data after which it exits.
        keep_for: Seconds after the last new event data after which it exits, even if it is used.
        requested: When the last request came; the start counts as one.
        written: When new event data was last seen; the start counts as such a time.
    """

    idle: float
    keep_for: float
    requested: float
    written: float

    def remaining(self, now: float) -> float:
        """Return the seconds until it exits if nothing happens until then; 0 or less = now."""
        return min(max(self.requested, self.written) + self.idle, self.written + self.keep_for) - now

    def why(self, now: float) -> str:
        """Return why it exits, as a sentence; empty = it does not exit yet."""
        if now >= self.written + self.keep_for:
            return f"There was no new event data for {self.keep_for:.0f} s (keep_for)."
        if now >= max(self.requested, self.written) + self.idle:
            return f"There was no request and no new event data for {self.idle:.0f} s (idle)."
        return ""


class Frontend:
    """A WSGI application before TensorBoard's: answers the health check, removes a path prefix, notes requests.

    A proxy may remove the prefix or leave it: TensorBoard's page has only relative links, so both work.

    Attributes:
        requested: When the last request came, by the monotonic clock.
    """

    def __init__(self, app: _Wsgi, prefix: str) -> None:
        """Serve `app`, also below the path `prefix`; empty = at the root alone."""
        self._app = app
        self._prefix = prefix.rstrip("/")
        self.requested = time.monotonic()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        path = environ.get("PATH_INFO", "")
        if path == HEALTH:
            start_response("200 OK", [("Content-Type", "text/plain")])
            return [b"ok\n"]
        self.requested = time.monotonic()
        if self._prefix and path == self._prefix:
            start_response("301 Moved Permanently", [("Location", f"{path}/")])
            return [b""]
        if self._prefix and path.startswith(f"{self._prefix}/"):
            environ["PATH_INFO"] = path.removeprefix(self._prefix)
        return self._app(environ, lambda status, headers, *more: start_response(status, _sent(headers), *more))


def _sent(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the headers without `Content-Encoding: identity`: Kubernetes' proxy fails at an HTML page with it."""
    return [(name, text) for name, text in headers if (name.lower(), text) != ("content-encoding", "identity")]


def main(argv: Sequence[str] | None = None) -> int:
    """Serve, and return the exit code. None = the process's own arguments."""
    options = _arguments().parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(_TERMINATED))  # a process 1 has no default action
    set_endpoints()
    log_dirs = dict(_named(text, several=len(options.log_dirs) > 1) for text in options.log_dirs)
    if options.no_server:
        print(f"waiting until the data of {', '.join(log_dirs.values())} is old", flush=True)
        return _wait(log_dirs, math.inf, options.keep_for, None)
    with tempfile.TemporaryDirectory(prefix="tfsteps-runs-") as links:
        try:
            frontend = _serve(arguments(log_dirs, pathlib.Path(links)), options.port, options.path_prefix)
        except Exception as error:  # noqa: BLE001  whatever it was: the log must say it, and the Job start it again
            text = " ".join((getattr(error, "msg", None) or str(error) or type(error).__name__).split())
            print(f"TensorBoard cannot start on port {options.port}: {text}", flush=True)
            return 1
        print(f"TensorBoard serves {', '.join(log_dirs.values())} on port {options.port}", flush=True)
        return _wait(log_dirs, options.idle, options.keep_for, frontend)


def _wait(log_dirs: Mapping[str, str], idle: float, keep_for: float, frontend: Frontend | None) -> int:
    """Wait until nobody uses the server or the data is old, and return the exit code; no frontend = no server."""
    now = time.monotonic()
    life = Lifetime(idle=idle, keep_for=keep_for, requested=now, written=now)
    pause = min(_LONGEST_PAUSE, idle / 4, keep_for / 4)
    with EventFileGrowth("", pause, lambda: _sizes(log_dirs.values())) as growth:
        while not (why := life.why(now)):
            time.sleep(max(0.05, min(pause, life.remaining(now))))
            now = time.monotonic()
            if growth.grown():
                life.written = now
            if frontend is None:
                continue
            life.requested = frontend.requested
            if _data_server_ended():
                print("TensorBoard's data server has ended; the container is started again.", flush=True)
                return 1
    print(f"TensorBoard exits: {why} `tfsteps tensorboard` starts it again.", flush=True)
    return 0


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tfsteps.tensorboard.service", description=__doc__)
    parser.add_argument(
        "log_dirs",
        nargs="+",
        metavar="LOG_DIR",
        help="folder of the event files, or its URI; of several each with the name that it is shown by: NAME=LOG_DIR",
    )
    parser.add_argument("--port", type=int, default=PORT, help=f"default: {PORT}")
    parser.add_argument("--no-server", action="store_true", help="serve nothing, and wait until the data is old")
    parser.add_argument("--path-prefix", default="", help="path of the public address; default: none")
    parser.add_argument("--idle", type=float, default=3600.0, help="seconds without use; default: an hour")
    parser.add_argument("--keep-for", type=float, default=86400.0, help="seconds after the last data; default: a day")
    return parser


def _named(text: str, *, several: bool) -> tuple[str, str]:
    """Return the name and the log directory of an argument; the name of a single one is empty."""
    name, _, log_dir = text.partition("=") if several else ("", "", text)
    return name, log_dir


def _serve(log_options: Sequence[str], port: int, prefix: str) -> Frontend:
    """Start TensorBoard in threads of this process, and return what its requests pass through."""
    sys.modules["tensorboard.compat.notf"] = types.ModuleType("notf")  # see tfsteps.tensorboard.server
    from tensorboard import program  # noqa: PLC0415

    frontends: list[Frontend] = []

    def server(app: _Wsgi, flags: Any) -> Any:
        frontends.append(Frontend(app, prefix))
        return program.WerkzeugServer(frontends[0], flags)

    tensorboard = program.TensorBoard(server_class=server)
    tensorboard.configure(argv=["tensorboard", *log_options, "--bind_all", "--port", str(port)])
    tensorboard.launch()
    return frontends[0]


def _sizes(log_dirs: Iterable[str]) -> dict[str, int]:
    """Return the size of each event file below some paths and URIs."""
    sizes = {}
    for log_dir in log_dirs:
        sizes.update(sizes_below(log_dir) if is_uri(log_dir) else file_sizes(log_dir))
    return sizes


def _data_server_ended() -> bool:
    """Tell whether the data server has ended, which TensorBoard runs for paths."""
    try:  # by its process group: process 1 of a container also inherits what `kubectl exec` leaves
        return os.waitid(os.P_PGID, os.getpgrp(), os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False


if __name__ == "__main__":
    streams.flush_and_exit(main())
