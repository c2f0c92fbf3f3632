"""An HTTP server that keeps what is PUT, and the program of replicas that fetches code from there."""

import contextlib
import http.server
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

from tfsteps.runs import code_archive
from tfsteps.systems.kubernetes import fetch_code


class Store(http.server.BaseHTTPRequestHandler):
    """Keeps what is PUT below /code; answers each GET with what is in `failures` first.

    200 = with half of it, 0 = a byte every 50 ms.
    """

    objects: dict[str, bytes]
    failures: list[int]

    def do_PUT(self):
        """Keep the content."""
        content = self.rfile.read(int(self.headers["Content-Length"]))
        allowed = self.path.startswith("/code/")
        if allowed:
            self.objects[self.path] = content
        self.answer(201 if allowed else 403)

    def do_GET(self):
        """Answer with it."""
        content, failure = self.objects.get(self.path), self.failures.pop(0) if self.failures else None
        if content and failure == 0:
            self.answer(200, content, 0)
            with contextlib.suppress(OSError):  # until the other side has enough of it
                for byte in content:
                    self.wfile.write(bytes([byte]))
                    time.sleep(0.05)
        elif failure and failure != 200:
            self.answer(failure)
        elif content:
            self.answer(200, content, len(content) // 2 if failure else None)
        else:
            self.answer(404)

    def answer(self, status, content=b"", sent=None):
        """Send an answer, and close the connection after `sent` bytes of its content."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[:sent])

    def log_message(self, *_):
        """Print nothing."""


@contextlib.contextmanager
def served():
    """Yield the handler of a server, with its `objects` and `failures`, and its address."""
    handler = type("Handler", (Store,), {"objects": {}, "failures": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield handler, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def fetch(source, folder, *options, waits="()", whole="900", largest="320 << 20", **env):
    """Run the program as a replica does, without packages of this environment; return its process."""
    program = pathlib.Path(fetch_code.__file__).read_text()
    for name, value in {"WAITS": waits, "WHOLE_SECONDS": whole, "LARGEST": largest}.items():
        program = re.sub(rf"(?m)^{name} = [^#\n]*", f"{name} = {value}  ", program)
    words = [
        sys.executable,
        *(options or ["-I", "-S"]),
        "-c",
        program,
        code_archive.url_of(source),
        source.digest,
        folder,
    ]
    variables = {"PATH": os.environ["PATH"], "NO_PROXY": "127.0.0.1", **env}
    return subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
