"""The TensorBoard of runs on a cluster: started again if it has ended, and reached through the API server."""

import contextlib
import http.server
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from tfsteps import typed_json
from tfsteps.backends.base import EventFolder
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import say
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import Status
from tfsteps.spec import Deadlines
from tfsteps.spec.step_inputs import tensorboard_job
from tfsteps.systems.kubernetes.follow.tensorboard import START_SECONDS, proxy_path, start, waits_for
from tfsteps.systems.kubernetes.job_kind import TensorBoardLink, tensorboard_address
from tfsteps.systems.kubernetes.query.runs import ClusterJob
from tfsteps.systems.kubernetes.tensorboard.request import (
    KUBEFLOW,
    SETTINGS,
    NoStorageError,
    TensorBoardRequest,
    TensorBoardSettings,
    request_for,
    request_of,
)
from tfsteps.tensorboard.address import HEALTH

_BY_HAND = Identity(run="log-dir", task="tensorboard")
_NO_TRAINING = Deadlines(total=0.0)
_HINT_SECONDS = 5.0
_POLL_SECONDS = 0.5
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "upgrade", "proxy-authenticate", "te", "trailer"}
_REQUEST_HEADERS = {"accept", "accept-encoding", "content-type", "if-none-match", "if-modified-since", "range"}


@contextlib.contextmanager
def opened(api: Api, request_for: Callable[[], TensorBoardRequest], port: int) -> Iterator[str]:
    """Yield the address on this machine of a TensorBoard on the cluster, after it was started.

    Args:
        api: The cluster.
        request_for: Returns what to start.
        port: Port of this machine; 0 = any that is free.

    Raises:
        CommandError: No pod can read the event files, or TensorBoard does not start.
        ApiError: The cluster refuses a request.
    """
    try:
        request = request_for()
        start(api, request, request.settings.total)
    except (NoStorageError, ValueError) as error:
        raise CommandError(str(error)) from error
    _await_ready(api, request)
    with _tunnel(api, proxy_path(request.namespace, request.name, request.port), port) as url:
        yield url


@contextlib.contextmanager
def opened_link(api: Api, link: TensorBoardLink, namespace: str, port: int) -> Iterator[str]:
    """Yield the address of the TensorBoard that a job's operator runs, once there is one.

    Raises:
        CommandError: It is not ready within the time of a start.
    """
    began, hinted = time.monotonic(), False
    while not (url := tensorboard_address(api, link, namespace)) or (link.path and not _is_served(api, link.path)):
        waited = time.monotonic() - began
        reason = link.note or ("its Service does not answer" if link.path else "it has no address that can be read yet")
        if waited > START_SECONDS:
            other = (
                "`tfsteps tensorboard --log-dir FOLDER --claim NAME:PATH` starts another one over the same event files"
            )
            raise CommandError(f"the operator's TensorBoard is not ready: {reason}; {other}", ExitCode.PLATFORM)
        if waited > _HINT_SECONDS and not hinted:
            say(f"waiting for the operator's TensorBoard: {reason}")
            hinted = True
        time.sleep(_POLL_SECONDS)
    if not link.path:
        yield url
        return
    with _tunnel(api, link.path, port) as forwarded:
        yield forwarded


def request_for_folder(folder: EventFolder, namespace: str) -> TensorBoardRequest:
    """Return the request for a TensorBoard over a folder of event files. SpecError if it cannot be served."""
    volumes = [{"pvc": folder.claim, "mount": folder.mount}] if folder.claim else []
    job = tensorboard_job({"log_dir": folder.log_dir, "image": folder.image, "spec": {"volumes": volumes}})
    return request_for(msgspec.structs.replace(job, deadlines=_NO_TRAINING), _BY_HAND, namespace, folder.log_dir)


def request_for_jobs(jobs: Sequence[ClusterJob]) -> TensorBoardRequest:
    """Return the request for one TensorBoard that shows all the jobs."""
    settings = {job.status.uid: _settings(job) for job in jobs}
    several = len({item.status.identity.run for item in jobs}) > 1
    log_dirs = {}
    for job in jobs:
        run = job.status.identity.run
        for folder in settings[job.status.uid].log_dirs.values():
            name = run if SETTINGS in _annotations(job) else f"{run}/{job.status.identity.task}"
            log_dirs[name] = folder
    if not several and len(set(log_dirs.values())) == 1:
        log_dirs = {"": next(iter(log_dirs.values()))}
    specs = [
        spec
        for job in jobs
        for spec in (
            *(item.item["spec"] for item in job.pods),
            *(role.template["spec"] for role in job.kind.roles(job.item).values()),
        )
    ]
    merged = msgspec.structs.replace(settings[jobs[0].status.uid], log_dirs=log_dirs, total=0.0)
    return request_of(jobs[0].item, specs, jobs[0].kind.container, merged)


def _settings(job: ClusterJob) -> TensorBoardSettings:
    """Return what a job says about its TensorBoard; if it says nothing, the defaults."""
    if text := _annotations(job).get(SETTINGS):
        return typed_json.decode(text, TensorBoardSettings)
    if not job.status.logs:
        raise CommandError(_lost(job.status))
    return TensorBoardSettings(log_dirs={"": job.status.logs})


def _lost(status: Status) -> str:
    return (
        f"run {status.identity.run}: the event files of task {status.identity.task} were on no volume, and are lost "
        "with its pods; set `output_dir` to a path on a claim or NFS export"
    )


def _annotations(job: ClusterJob) -> Mapping[str, str]:
    return job.item["metadata"].get("annotations") or {}


def _await_ready(api: Api, request: TensorBoardRequest) -> None:
    """Wait until TensorBoard answers. CommandError if it does not start; says why, as far as its pod shows it."""
    began, hinted = time.monotonic(), ""
    name = f"{request.namespace}/{request.name}"
    while not _answers(api, request):
        waited = time.monotonic() - began
        reason = waits_for(api, request) or "its Service has no answer yet"
        if waited > START_SECONDS:
            message = f"TensorBoard {name} did not start within {waited:.0f} s: {reason}"
            raise CommandError(message, ExitCode.PLATFORM)
        if waited > _HINT_SECONDS and reason != hinted:
            say(f"waiting for TensorBoard {name}: {reason}")
            hinted = reason
        time.sleep(_POLL_SECONDS)


def _answers(api: Api, request: TensorBoardRequest) -> bool:
    page = "/data/environment" if request.settings.via == KUBEFLOW else HEALTH
    return _is_served(api, proxy_path(request.namespace, request.name, request.port).rstrip("/") + page)


def _is_served(api: Api, path: str) -> bool:
    """Tell whether the API server forwards a request for `path` to a server that answers it."""
    try:
        with api.forward("GET", path, None, {}) as response:
            return bool(response.status == 200)
    except ApiError:
        return False


# --- the tunnel


@contextlib.contextmanager
def _tunnel(api: Api, path: str, port: int) -> Iterator[str]:
    """Yield the address of a server on this machine that forwards requests to a path of the API server."""

    class Proxy(_ProxyHandler):
        target = path.rstrip("/")
        client = api

    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Proxy)
    except OSError as error:
        raise CommandError(
            f"--port {port} cannot be used: {error}; give another one, or 0 for any that is free"
        ) from error
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="tunnel", daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


class _ProxyHandler(http.server.BaseHTTPRequestHandler):
    """Forwards one request with the credentials of the kubeconfig. Only TensorBoard's own path is reachable."""

    protocol_version = "HTTP/1.1"
    target = ""
    client: Api

    def do_GET(self) -> None:
        self._forward()

    do_HEAD = do_POST = do_GET  # noqa: N815  http.server's names

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def _forward(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        content = self.rfile.read(length) if length else None
        headers = {key: text for key, text in self.headers.items() if key.lower() in _REQUEST_HEADERS}
        try:
            with self.client.forward(self.command, self.target + self.path, content, headers) as response:
                self._answer(response)
        except (ApiError, HTTPError) as error:
            text = f"TensorBoard cannot be reached: {error}\n".encode()
            self.send_response(502)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
        except ConnectionError:  # the browser has closed the page
            self.close_connection = True

    def _answer(self, response: urllib3.BaseHTTPResponse) -> None:
        self.send_response(response.status)
        for key, text in response.headers.items():
            if key.lower() not in _HOP_BY_HOP:
                self.send_header(key, text)
        chunked = "Content-Length" not in response.headers
        if chunked:
            self.send_header("Connection", "close")
        self.end_headers()
        for block in response.stream(1 << 16, decode_content=False):
            self.wfile.write(block)
        if chunked:
            self.close_connection = True
