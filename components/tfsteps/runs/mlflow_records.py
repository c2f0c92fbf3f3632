"""Records on an MLflow tracking server, by its REST API: each attempt is a run of MLflow.

The run has the inputs of the job as parameters, the metrics and the curves, tags of tfsteps, and the files of the
record as artifacts, which the server passes on to where it keeps them.
"""

import base64
import json
import re
import ssl
import time
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from tfsteps import typed_json
from tfsteps.kube.credentials import Access, checked_token
from tfsteps.kube.errors import ApiError
from tfsteps.kube.http_client import HttpClient, checked
from tfsteps.masking import hidden, sent
from tfsteps.runs.code import image_line
from tfsteps.runs.events import State
from tfsteps.runs.inputs import flatten, read_inputs
from tfsteps.runs.status import Status

NAME, PREFIX = "mlflow", "mlflow+"
"""`mlflow` is the server of MLFLOW_TRACKING_URI; `mlflow+https://HOST#EXPERIMENT` names it."""

_URI, _EXPERIMENT = "MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"
_USER, _PASSWORD, _TOKEN = "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN"
_WORKSPACE = "MLFLOW_WORKSPACE"
_INSECURE, _CERTIFICATE = "MLFLOW_TRACKING_INSECURE_TLS", "MLFLOW_TRACKING_SERVER_CERT_PATH"
_DEFAULT = "tfsteps"
_API, _ARTIFACTS = "/api/2.0/mlflow", "/api/2.0/mlflow-artifacts/artifacts"
_FOLDER, _FILES, _STORED = "tfsteps.folder", "tfsteps.files", "tfsteps.stored"
_REQUEST_SECONDS, _PATIENCE_SECONDS = 5.0, 2.0
_PAGE = 1000
# Limits of MLflow for a request, and those for a value of its older servers.
_PARAMETERS, _VALUES, _PARAMETER_CHARACTERS, _TAG_CHARACTERS, _KEY_CHARACTERS = 100, 1000, 500, 5000, 250
_CURVE_VALUES = 10_000  # of all curves of an attempt
_KEY = re.compile(r"[^\w./ -]")
_STATUSES = {State.SUCCEEDED: "FINISHED", State.FAILED: "FAILED", State.LOST: "FAILED", State.CANCELLED: "KILLED"}
_REASON = 200


class StoredFile(msgspec.Struct, frozen=True):
    """One file.

    Attributes:
        path: `runs/RUN/TASK/ATTEMPT/NAME`.
        size: In bytes.
        changed: When it was stored, in seconds since the epoch.
    """

    path: str
    size: int
    changed: float


def check_time(until: float, what: str) -> None:
    """Raise TimeoutError after `until`, a value of `time.monotonic()`; `what` is missing then."""
    if time.monotonic() > until:
        raise TimeoutError(f"it took too long; {what} and what follows are missing")


class _StoredCurve(msgspec.Struct):
    run: str
    points: list[tuple[int, float]] = []


class _StoredChart(msgspec.Struct):
    tag: str
    curves: list[_StoredCurve] = []


class _StoredCharts(msgspec.Struct):
    """The part of `curves.json` that is stored as metrics."""

    charts: list[_StoredChart] = []


def resolve(address: str, variables: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return `mlflow+https://HOST#EXPERIMENT` for `mlflow` or an address of this form, and the variables of MLflow.

    A user and a password in the address become variables, so that no message has them.

    Raises:
        ValueError: It names no tracking server.
    """
    uri = variables.get(_URI, "") if address == NAME else address.removeprefix(PREFIX)
    parts = urllib.parse.urlsplit(uri)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        what = f"{_URI} is {hidden(uri)!r}" if address == NAME else "it has no host"
        raise ValueError(
            f"{what}; write the http or https address of a tracking server, such as https://mlflow.example"
        )
    login = {_USER: parts.username, _PASSWORD: parts.password} if parts.username else {}
    experiment = parts.fragment or urllib.parse.quote(variables.get(_EXPERIMENT) or _DEFAULT)
    plain = parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment=experiment, path=parts.path.rstrip("/"))
    chosen = {name: value for name, value in variables.items() if name.startswith("MLFLOW_")}
    return PREFIX + plain.geturl(), {**chosen, **{k: urllib.parse.unquote(v or "") for k, v in login.items()}}


class MlflowRecords:
    """The records in one experiment. All methods raise ApiError if the server refuses or does not answer."""

    def __init__(self, address: str, variables: Mapping[str, str]) -> None:
        """Open an address as `resolve` returns it; no request is sent. AccessError if the token cannot be sent."""
        parts = urllib.parse.urlsplit(address.removeprefix(PREFIX))
        self._experiment = urllib.parse.unquote(parts.fragment)
        server = parts._replace(fragment="").geturl()
        access = Access(server, "", _tls(variables) if parts.scheme == "https" else None, lambda _: "", "the server")
        self._client = HttpClient(access, _PATIENCE_SECONDS, _REQUEST_SECONDS)
        self._headers = _headers(variables)
        self._roots: dict[str, str] = {}  # by folder: where its artifacts are, for the artifact API

    def put(self, folder: str, files: Iterable[tuple[str, bytes]], until: float) -> None:
        """Store the files of an attempt.

        Raises:
            TimeoutError: It takes too long; what was stored by then stays.
            ValueError: The server does not take artifacts, or deleted the experiment.
        """
        contents = dict(files)
        status = typed_json.decode(contents["status.json"], Status)
        check_time(until, "the run in MLflow")
        run = self._run(folder, status)
        run_id, root = run["info"]["run_id"], _root(run)
        for batch in _batches(run, status, contents):
            check_time(until, "a part of the run in MLflow")
            self._post("runs/log-batch", {"run_id": run_id, **batch})
        ended = {"end_time": _ms(status.ended)} if status.state.terminal and status.ended else {}
        self._post("runs/update", {"run_id": run_id, "status": _STATUSES.get(status.state, "RUNNING"), **ended})
        if not root:
            where = hidden(str(run["info"].get("artifact_uri")))
            raise ValueError(
                f"the server does not take files, and keeps them at {where}; start it with --serve-artifacts"
            )
        for name, content in contents.items():
            check_time(until, name)
            self._send("PUT", f"{root}/{name}", content)
        sizes = json.dumps({name: len(content) for name, content in contents.items()})
        tags = _pairs({_FOLDER: folder, _FILES: sizes, _STORED: str(time.time())})
        self._post("runs/log-batch", {"run_id": run_id, "tags": tags})

    def list(self, below: str) -> Iterator[StoredFile]:
        """Yield the files below `runs` or `runs/RUN`."""
        folders = set()
        for run in self._runs(f"LIKE '{below}/%'"):  # the newest first
            tags = {tag["key"]: tag["value"] for tag in run["data"].get("tags", [])}
            folder = tags[_FOLDER]  # `%` and `_` in the name of a run match others, too
            if _FILES not in tags or not folder.startswith(f"{below}/") or folder in folders:
                continue
            folders.add(folder)
            self._roots[folder] = _root(run)
            for name, size in json.loads(tags[_FILES]).items():
                yield StoredFile(f"{folder}/{name}", size, float(tags[_STORED]))

    def get(self, path: str) -> bytes:
        """Return the content of a file that `list` has yielded."""
        folder, _, name = path.rpartition("/")
        return self._send("GET", f"{self._roots[folder]}/{name}", None)

    def _run(self, folder: str, status: Status) -> dict[str, Any]:
        """Return the run of an attempt, which is created unless it is there."""
        if run := next(self._runs(f"= '{folder}'"), None):
            return run
        identity = status.identity
        experiment = self._experiment_id() or self._created_experiment()
        name = f"{identity.run}/{identity.task}" + (f" ({identity.attempt})" if identity.attempt else "")
        new = {
            "experiment_id": experiment,
            "start_time": _ms(status.created),
            "run_name": name[:_KEY_CHARACTERS],
            "tags": _pairs({_FOLDER: folder}),
        }
        answer: dict[str, Any] = self._post("runs/create", new)["run"]
        return answer

    def _runs(self, condition: str) -> Iterator[dict[str, Any]]:
        experiment, token = self._experiment_id(), ""
        while experiment:
            asked = {
                "experiment_ids": [experiment],
                "filter": f"tags.`{_FOLDER}` {condition}",
                "max_results": _PAGE,
                "order_by": ["attributes.start_time DESC"],
                "page_token": token,
            }
            page = self._post("runs/search", asked)
            yield from page.get("runs", [])
            token = page.get("next_page_token", "")
            if not token:
                return

    def _experiment_id(self) -> str:
        """Return the id of the experiment; empty = there is none. ValueError if it is deleted."""
        query = {"experiment_name": self._experiment}
        try:
            answer = checked("experiment", self._send("GET", f"{_API}/experiments/get-by-name", None, query), None)
        except ApiError as error:
            if error.status == 404:
                return ""
            raise
        if answer["experiment"].get("lifecycle_stage") == "deleted":
            raise ValueError(f"experiment {self._experiment!r} is deleted; restore it, or set {_EXPERIMENT}")
        return str(answer["experiment"]["experiment_id"])

    def _created_experiment(self) -> str:
        try:
            return str(self._post("experiments/create", {"name": self._experiment})["experiment_id"])
        except ApiError:
            if there := self._experiment_id():  # another launcher has created it
                return there
            raise

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        content = msgspec.json.encode(body)
        return checked(path, self._send("POST", f"{_API}/{path}", content, kind="application/json"), None)

    def _send(
        self,
        method: str,
        path: str,
        content: bytes | None,
        query: Mapping[str, str] = {},
        kind: str = "application/octet-stream",
    ) -> bytes:
        headers = {**self._headers, "Content-Type": kind}

        def once() -> bytes:
            answer = self._client.exchange(method, path, query, content, headers, preload=True)
            if 200 <= answer.status < 300:
                return answer.data
            raise ApiError(f"{method} {path} was answered with {answer.status}{_reason(answer.data)}", answer.status)

        # A run that is created twice would stay; everything else can be sent again.
        return once() if path.endswith("runs/create") else self._client.retry(once)


def _reason(content: bytes) -> str:
    try:
        message = str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):  # of a proxy
        return ""
    return f": {message.partition(chr(10))[0][:_REASON]}"


def _tls(variables: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=variables.get(_CERTIFICATE) or None)
    if variables.get(_INSECURE, "").lower() in ("true", "1"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _headers(variables: Mapping[str, str]) -> dict[str, str]:
    workspace = variables.get(_WORKSPACE)
    return {**({"X-MLFLOW-WORKSPACE": workspace} if workspace else {}), **_login(variables)}


def _login(variables: Mapping[str, str]) -> dict[str, str]:
    if user := variables.get(_USER):
        login = f"{user}:{sent(variables.get(_PASSWORD, ''))}".encode()
        return {"Authorization": f"Basic {base64.b64encode(login).decode()}"}
    if token := variables.get(_TOKEN):
        return {"Authorization": f"Bearer {sent(checked_token(token, _TOKEN))}"}
    return {}


def _root(run: Mapping[str, Any]) -> str:
    """Return the path of a run's artifacts in the artifact API; empty = the server does not serve them."""
    parts = urllib.parse.urlsplit(str(run["info"].get("artifact_uri")))
    return f"{_ARTIFACTS}/{parts.path.strip('/')}" if parts.scheme == "mlflow-artifacts" else ""


def _batches(run: Mapping[str, Any], status: Status, contents: Mapping[str, bytes]) -> Iterator[dict[str, Any]]:
    """Yield what is stored of a run beside its files, in requests of the size that MLflow takes."""
    parameters = {} if run["data"].get("params") else _parameters(contents.get("job.json", b""))  # they cannot change
    yield {"tags": _pairs(_tags(status)), "params": _pairs(parameters)}
    if status.state.terminal:
        at = _ms(status.ended or status.created)
        values = [
            {"key": key, "value": value, "timestamp": at, "step": step}
            for key, step, value in _values(status, contents)
        ]
        for start in range(0, len(values), _VALUES):
            yield {"metrics": values[start : start + _VALUES]}


def _tags(status: Status) -> dict[str, str]:
    identity, code = status.identity, status.code
    tags = {
        "tfsteps.run": identity.run,
        "tfsteps.task": identity.task,
        "tfsteps.attempt": str(identity.attempt),
        "tfsteps.pipeline": identity.pipeline,
        "tfsteps.system": status.system,
        "tfsteps.namespace": status.namespace,
        "tfsteps.job": status.job,
        "tfsteps.state": status.state.value,
        "tfsteps.reason": status.reason,
        "tfsteps.code": str(code or ""),
        "tfsteps.image": image_line(status.images),
        "mlflow.source.name": identity.task,
        "mlflow.source.git.commit": code.commit if code else "",
        "mlflow.note.content": hidden(status.failure.summary if status.failure else status.message),
    }
    return {key: value[:_TAG_CHARACTERS] for key, value in tags.items() if value}


def _parameters(job: bytes) -> dict[str, str]:
    """Return the inputs of a job, options of command lines first, as many as MLflow takes."""
    inputs = sorted(flatten(read_inputs(job) or {}), key=lambda item: " -" not in item[0])
    texts = {_key(path): value if isinstance(value, str) else json.dumps(value) for path, value in inputs}
    return {key: texts[key][:_PARAMETER_CHARACTERS] for key in list(texts)[:_PARAMETERS]}


def _values(status: Status, contents: Mapping[str, bytes]) -> Iterator[tuple[str, int, float]]:
    """Yield (key, step, value) of the curves, and of the metrics, whose steps are not known."""
    try:  # a last value may be NaN, which msgspec does not read
        charts = typed_json.convert(json.loads(contents.get("curves.json", b"{}")), _StoredCharts).charts
    except (ValueError, RecursionError):
        charts = []
    curves = {
        _key(chart.tag if curve.run == "." else f"{curve.run}/{chart.tag}"): curve.points
        for chart in charts
        for curve in chart.curves
        if curve.points
    }
    for name, value in status.metrics.items():  # before a curve of that name which is another
        if _key(name) not in curves or curves[_key(name)][-1][1] != value:
            curves[_key(name)] = [(0, value)]
    stride = max(1, -(-sum(map(len, curves.values())) // _CURVE_VALUES))
    for key, points in curves.items():
        for step, value in points[::-stride][::-1]:  # the last is always among them
            yield key, step, value


def _key(name: str) -> str:
    """Return a name as MLflow takes it: as a path in its normal form."""
    parts = [part for part in _KEY.sub("_", name).split("/") if part not in ("", ".", "..")]
    return "/".join(parts)[:_KEY_CHARACTERS].rstrip("/") or "_"


def _pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in values.items()]


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
