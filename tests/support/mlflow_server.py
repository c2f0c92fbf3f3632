"""An MLflow tracking server in memory: the requests that tfsteps sends, answered as MLflow 3.17.2 answers them.

MLflow itself takes 600 MB of packages. Its answers were recorded; what it refuses is refused here, too.
"""

import contextlib
import http.server
import json
import re
import threading
import urllib.parse

API, ARTIFACTS = "/api/2.0/mlflow/", "/api/2.0/mlflow-artifacts/artifacts/"
_KEY = re.compile(r"^[/\w.\- :]*$")


class RefusalError(Exception):
    def __init__(self, status, code, message):
        super().__init__(message)
        self.status, self.body = status, {"error_code": code, "message": message, "sqlstate": "KAM00"}


def invalid(message):
    return RefusalError(400, "INVALID_PARAMETER_VALUE", message)


class MlflowServer:
    """Its content, and how it behaves.

    Attributes:
        experiments: Ids by name.
        runs: By id, as MLflow returns them.
        metrics: By id of the run: all values, as (key, step, value).
        files: By path.
        headers: Of the last request.
        serves_artifacts: False = as with --no-serve-artifacts.
        refuses: Status of the answer to each request; 0 = none.
    """

    def __init__(self):
        self.experiments, self.runs, self.metrics, self.files, self.headers = {}, {}, {}, {}, {}
        self.serves_artifacts, self.refuses = True, 0

    def answer(self, method, path, query, content):
        if self.refuses:
            raise RefusalError(self.refuses, "PERMISSION_DENIED", "You are not authenticated.")
        if path.startswith(ARTIFACTS):
            return self._artifact(method, path.removeprefix(ARTIFACTS), content)
        return json.dumps(self._called(path.removeprefix(API), query or json.loads(content)), indent=2).encode()

    def _artifact(self, method, path, content):
        if not self.serves_artifacts:
            raise RefusalError(503, "", "artifacts are not served")
        if method == "PUT":
            self.files[path] = content
            return b""
        if path not in self.files:
            raise RefusalError(404, "RESOURCE_DOES_NOT_EXIST", f"No such artifact: '{path}'")
        return self.files[path]

    def _called(self, name, asked):
        match name:
            case "experiments/get-by-name":
                if (experiment := asked["experiment_name"]) not in self.experiments:
                    message = f"Could not find experiment with name '{experiment}'"
                    raise RefusalError(404, "RESOURCE_DOES_NOT_EXIST", message)
                about = {"experiment_id": self.experiments[experiment], "name": experiment}
                return {"experiment": {**about, "lifecycle_stage": "active"}}
            case "experiments/create":
                if asked["name"] in self.experiments:
                    raise RefusalError(
                        400, "RESOURCE_ALREADY_EXISTS", f"Experiment(name={asked['name']}) already exists."
                    )
                self.experiments[asked["name"]] = str(len(self.experiments) + 1)
                return {"experiment_id": self.experiments[asked["name"]]}
            case "runs/create":
                return {"run": self._created(asked)}
            case "runs/search":
                return self._found(asked)
            case "runs/log-batch":
                return self._logged(self.runs[asked["run_id"]]["data"], asked)
            case "runs/update":
                info = self.runs[asked["run_id"]]["info"]
                info.update({key: asked[key] for key in ("status", "end_time") if key in asked})
                return {"run_info": info}
        raise RefusalError(404, "ENDPOINT_NOT_FOUND", name)

    def _created(self, asked):
        run_id, experiment = f"{len(self.runs):032x}", asked["experiment_id"]
        scheme = "mlflow-artifacts" if self.serves_artifacts else "file"
        info = {
            "run_id": run_id,
            "experiment_id": experiment,
            "run_name": asked["run_name"],
            "status": "RUNNING",
            "start_time": asked["start_time"],
            "artifact_uri": f"{scheme}:/{experiment}/{run_id}/artifacts",
            "lifecycle_stage": "active",
        }
        tags = [*asked["tags"], {"key": "mlflow.runName", "value": asked["run_name"]}]
        self.runs[run_id] = {"info": info, "data": {"tags": tags}, "inputs": {}}
        return self.runs[run_id]

    def _found(self, asked):
        key, operator, value = re.fullmatch(r"tags\.`(.*)` (=|LIKE) '(.*)'", asked["filter"]).groups()
        pattern = re.escape(value).replace("%", ".*").replace("_", ".") if operator == "LIKE" else re.escape(value)
        runs = [
            run
            for run in self.runs.values()
            if run["info"]["experiment_id"] in asked["experiment_ids"]
            and re.fullmatch(pattern, {tag["key"]: tag["value"] for tag in run["data"]["tags"]}.get(key, ""), re.DOTALL)
        ]
        runs.sort(key=lambda run: -run["info"]["start_time"])
        start, most = int(asked["page_token"] or 0), min(asked["max_results"], 3)  # small pages
        more = {"next_page_token": str(start + most)} if runs[start + most :] else {}
        return {"runs": runs[start : start + most], **more} if runs else {}

    def _logged(self, data, asked):
        if sum(len(asked.get(kind, [])) for kind in ("tags", "params", "metrics")) > 1000:
            raise invalid("A batch logging request can contain at most 1000 metrics, params and tags.")
        for kind, longest in (("tags", 5000), ("params", 500), ("metrics", 0)):
            for item in asked.get(kind, []):
                key = item["key"]
                if not _KEY.match(key) or key.startswith(("/", ".")) or "//" in key or len(key) > 250:
                    raise invalid(f"Invalid value {key!r} for parameter '{kind}[0].key' supplied")
                if longest and len(item["value"]) > longest:
                    raise invalid(f"'{kind}[0].value' exceeded the maximum length of {longest} characters")
        for kind in ("tags", "params"):
            known = {item["key"]: item["value"] for item in data.get(kind, [])}
            new = {item["key"]: item["value"] for item in asked.get(kind, [])}
            if kind == "params" and any(known.get(key, value) != value for key, value in new.items()):
                raise invalid("Changing param values is not allowed.")
            data[kind] = [{"key": key, "value": value} for key, value in {**known, **new}.items()]
        values = self.metrics.setdefault(asked["run_id"], {})
        for item in asked.get("metrics", []):
            assert isinstance(item["timestamp"], int)
            values[item["key"], item["step"], item["value"]] = None
        return {}


@contextlib.contextmanager
def served():
    """Yield (server, address) of a server on this machine."""
    state = MlflowServer()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self):
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = urllib.parse.urlsplit(self.path)
            state.headers = dict(self.headers)
            try:
                status, body = (
                    200,
                    state.answer(self.command, parts.path, dict(urllib.parse.parse_qsl(parts.query)), content),
                )
            except RefusalError as refusal:
                status, body = refusal.status, json.dumps(refusal.body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = _answer  # noqa: N815  names of the library

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        try:
            yield state, f"http://127.0.0.1:{listening.server_port}"
        finally:
            listening.shutdown()
