"""A Kubernetes API server with a state: objects of one namespace, watches, logs, and the garbage collector."""

import asyncio
import copy
import datetime as dt
import itertools
import json
import re
import time

from tests.unknown.server import Answer, Server
from tests.wire.scripted import _KINDS as KINDS

NAMESPACE = "ns"
_APIS = {
    "v1": ["configmaps", "events", "limitranges", "namespaces", "persistentvolumeclaims", "pods", "resourcequotas",
           "secrets", "serviceaccounts", "services"],
    "batch/v1": ["jobs"],
    "argoproj.io/v1alpha1": ["workflows"],
    "authorization.k8s.io/v1": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
}  # fmt: skip
_JOB_APIS = {
    "kubeflow": ("kubeflow.org/v1", ["tfjobs"]),
    "jobset": ("jobset.x-k8s.io/v1alpha2", ["jobsets"]),
    "jobs": ("batch/v1", ["jobs"]),
}
BOOKMARK_SECONDS = 2.0
_REASONS = {403: "Forbidden", 404: "NotFound", 409: "Conflict", 429: "TooManyRequests", 500: "InternalError"}


class Stream:
    """Parts of an answer that come one after another."""

    def __init__(self, on_close):
        self._parts: asyncio.Queue[bytes] = asyncio.Queue()
        self._on_close = on_close

    def put(self, part):
        self._parts.put_nowait(part)

    async def next(self):
        """Return the next part; empty = it has ended."""
        return await self._parts.get()

    def close(self):
        self._on_close(self)


class Watcher(Stream):
    """A watch of the objects of one kind that are selected."""

    def __init__(self, plural, query, on_close):
        super().__init__(on_close)
        self.plural, self.query = plural, query

    def see(self, kind, item, before):
        was, is_ = before is not None and selected(before, self.query), selected(item, self.query)
        if not (was or is_):
            return
        kind = "DELETED" if kind == "DELETED" or not is_ else "MODIFIED" if was else "ADDED"
        self.put(json.dumps({"type": kind, "object": item}).encode() + b"\n")


class Cluster(Server):
    """The API server.

    Attributes:
        objects: By plural and name.
        deleted: (actor, plural, object) of what was deleted; the actor is empty if the garbage collector did it.
        on_change: Called with (plural, object, actor) after each creation and change; it is empty for the scenario.
    """

    def __init__(self, system, fault=None, point=None):
        super().__init__(fault, point)
        self.objects: dict[tuple[str, str], dict] = {}
        self.deleted: list[tuple[str, str, dict]] = []
        self.on_change = lambda *_: None
        api, plurals = _JOB_APIS[system]
        self._served = {**_APIS, api: sorted({*_APIS.get(api, []), *plurals})}
        self._history: list[tuple[int, str, str, dict, dict | None]] = []
        self._versions = itertools.count(1001)
        self._numbers = itertools.count(1)
        self._watchers: set[Watcher] = set()
        self._logs: dict[str, list[bytes]] = {}
        self._log_streams: dict[str, set[Stream]] = {}
        self.put("namespaces", {"metadata": {"name": NAMESPACE}})

    # --- the objects, for the scenario

    def put(self, plural, item, actor=""):
        """Store an object, new or changed, and return it as it is stored."""
        item = copy.deepcopy(item)
        meta = item["metadata"]
        before = self.objects.get((plural, meta["name"]))
        meta.setdefault("uid", before["metadata"]["uid"] if before else f"uid-{next(self._numbers)}")
        meta.setdefault("creationTimestamp", _now())
        meta.update(namespace=NAMESPACE, resourceVersion=str(next(self._versions)))
        item = {"apiVersion": self._api_of(plural), "kind": KINDS[plural], **item}
        self.objects[plural, meta["name"]] = item
        self._tell(plural, "MODIFIED" if before else "ADDED", item, before)
        self.on_change(plural, item, actor)
        return item

    def get(self, plural, name):
        return self.objects.get((plural, name))

    def all(self, plural, **labels):
        """Return the objects of a kind with these labels."""
        items = [item for (kind, _), item in self.objects.items() if kind == plural]
        return [item for item in items if labels.items() <= (item["metadata"].get("labels") or {}).items()]

    def patch(self, plural, name, change, actor=""):
        """Merge a change into an object."""
        return self.put(plural, _merged(self.objects[plural, name], change), actor)

    def remove(self, plural, name, actor=""):
        """Delete an object and, later, what it alone owns."""
        item = self.objects.pop((plural, name), None)
        if item is None:
            return
        self.deleted.append((actor, plural, item))
        gone = copy.deepcopy(item)
        gone["metadata"]["resourceVersion"] = str(next(self._versions))
        self._tell(plural, "DELETED", gone, item)
        self.end_log(item["metadata"]["uid"])
        uid = item["metadata"]["uid"]
        for (kind, other), owned in list(self.objects.items()):
            owners = owned["metadata"].get("ownerReferences") or []
            if uid in [owner["uid"] for owner in owners] and not any(self._exists(owner) for owner in owners):
                self.remove(kind, other)

    def say(self, uid, text):
        """Let the pod with this uid print a line."""
        stamp = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
        line = f"{stamp} {text}\n".encode()
        self._logs.setdefault(uid, []).append(line)
        for stream in self._log_streams.get(uid, ()):
            stream.put(line)

    def end_log(self, uid):
        for stream in self._log_streams.pop(uid, ()):
            stream.put(b"")

    def _exists(self, owner):
        return any(item["metadata"]["uid"] == owner["uid"] for item in self.objects.values())

    def _tell(self, plural, kind, item, before):
        self._history.append((int(item["metadata"]["resourceVersion"]), plural, kind, item, before))
        for watcher in self._watchers:
            if watcher.plural == plural:
                watcher.see(kind, item, before)

    def _api_of(self, plural):
        return next(api for api, plurals in self._served.items() if plural in plurals)

    # --- requests

    def actor(self, headers, body):
        return headers.get("authorization", "").removeprefix("Bearer ") or "nobody"

    def kind(self, request):
        plural, _, _ = _where(request.path)
        return f"{_verb(request)} {plural if self._serves(request.path, plural) else request.path}"

    def refusal(self, request, status):
        plural, name, _ = _where(request.path)
        name = name or ((request.body or {}).get("metadata") or {}).get("name", "")
        details = {"details": {"name": name, "kind": plural}} if name else {}
        message = f"{plural} {name!r}: refused with {status} as the scenario wants it"
        body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": status}
        return Answer(status, {**body, "reason": _REASONS[status], "message": message, **details})

    async def answer(self, request):
        plural, name, _ = _where(request.path)
        if not plural:
            return self._discovery(request)
        if not self._serves(request.path, plural):
            return Answer(404, b"404 page not found\n", {"Content-Type": "text/plain"})
        verbs = {"get": self._get, "list": self._list, "watch": self._watch, "log": self._log, "create": self._create,
                 "dry-run": self._create, "patch": self._patch, "delete": self._delete}  # fmt: skip
        return verbs[_verb(request)](request, plural, name)

    def _serves(self, path, plural):
        return any(path.startswith(f"/apis/{api}/" if "/" in api else f"/api/{api}/") and plural in plurals
                   for api, plurals in self._served.items())  # fmt: skip

    def _get(self, request, plural, name):
        item = self.get(plural, name)
        return Answer(200, item) if item else self.refusal(request, 404)

    def _list(self, request, plural, _name):
        items = [item for item in self.all(plural) if selected(item, request.query)]
        meta = {"resourceVersion": str(next(self._versions))}
        body = {"kind": f"{KINDS[plural]}List", "apiVersion": self._api_of(plural), "metadata": meta, "items": items}
        return Answer(200, body)

    def _watch(self, request, plural, _name):
        watcher = Watcher(plural, request.query, self._watchers.discard)
        since = int(request.query.get("resourceVersion") or 0)
        for version, kind, event, item, before in self._history:
            if kind == plural and version > since:
                watcher.see(event, item, before)
        self._watchers.add(watcher)
        self._bookmark(watcher)
        return Answer(stream=watcher)

    def _bookmark(self, watcher):
        if watcher in self._watchers:
            meta = {"resourceVersion": str(next(self._versions))}
            item = {"kind": KINDS[watcher.plural], "apiVersion": self._api_of(watcher.plural), "metadata": meta}
            watcher.put(json.dumps({"type": "BOOKMARK", "object": item}).encode() + b"\n")
            asyncio.get_running_loop().call_later(BOOKMARK_SECONDS, self._bookmark, watcher)

    def _log(self, request, _plural, name):
        pod = self.get("pods", name)
        if pod is None:
            return self.refusal(request, 404)
        if request.query.get("previous") == "true":
            return Answer(400, self.refusal(request, 409).body | {"reason": "BadRequest", "code": 400})
        uid = pod["metadata"]["uid"]
        lines = self._logs.get(uid, [])
        since = request.query.get("sinceTime", "").removesuffix("Z")
        lines = [line for line in lines if line.decode() >= since]
        if tail := request.query.get("tailLines"):
            lines = lines[len(lines) - int(tail) :]
        if request.query.get("follow") != "true" or pod["status"]["phase"] in ("Succeeded", "Failed"):
            return Answer(200, b"".join(lines), {"Content-Type": "text/plain"})
        stream = Stream(lambda stream: self._log_streams.get(uid, set()).discard(stream))
        for line in lines:
            stream.put(line)
        self._log_streams.setdefault(uid, set()).add(stream)
        return Answer(stream=stream, headers={"Content-Type": "text/plain"})

    def _create(self, request, plural, _name):
        body = copy.deepcopy(request.body)
        if plural == "selfsubjectrulesreviews":
            rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
            return Answer(
                201, {**body, "status": {"resourceRules": [rule], "nonResourceRules": [], "incomplete": False}}
            )
        if plural == "selfsubjectaccessreviews":
            return Answer(201, {**body, "status": {"allowed": True}})
        meta = body["metadata"]
        if "name" not in meta:
            meta["name"] = f"{meta['generateName']}{next(self._numbers):05d}"
        if (plural, meta["name"]) in self.objects:
            answer = self.refusal(request, 409)
            answer.body |= {"reason": "AlreadyExists", "message": f'{plural} "{meta["name"]}" already exists'}
            return answer
        if "dryRun" in request.query:
            return Answer(201, {**body, "metadata": {**meta, "uid": "dry", "namespace": NAMESPACE}})
        return Answer(201, self.put(plural, body, request.actor))

    def _patch(self, request, plural, name):
        item = self.get(plural, name)
        if item is None:
            return self.refusal(request, 404)
        if (request.body.get("metadata") or {}).get("uid", item["metadata"]["uid"]) != item["metadata"]["uid"]:
            return self.refusal(request, 409)
        return Answer(200, self.patch(plural, name, request.body, request.actor))

    def _delete(self, request, plural, name):
        item = self.get(plural, name)
        if item is None:
            return self.refusal(request, 404)
        body = request.body or {}
        if (body.get("preconditions") or {}).get("uid", item["metadata"]["uid"]) != item["metadata"]["uid"]:
            answer = self.refusal(request, 409)
            answer.body["message"] = "the UID in the precondition does not match the UID in record"
            return answer
        self.remove(plural, name, request.actor)
        return Answer(200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})

    def _discovery(self, request):
        groups = [(api.split("/")[0], api) for api in self._served if "/" in api]
        named = [{"name": group, "versions": [version := {"groupVersion": api, "version": api.split("/")[1]}],
                  "preferredVersion": version} for group, api in groups]  # fmt: skip
        if request.path == "/apis":
            return Answer(200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": named})
        for api, plurals in self._served.items():
            if request.path == (f"/apis/{api}" if "/" in api else f"/api/{api}"):
                kinds = [{"name": plural, "namespaced": True, "kind": KINDS[plural], "verbs": ["get", "list"]}
                         for plural in plurals]  # fmt: skip
                return Answer(200, {"kind": "APIResourceList", "groupVersion": api, "resources": kinds})
        return Answer(404, b"404 page not found\n", {"Content-Type": "text/plain"})


def _verb(request):
    """Return what a request does, in the words of Kubernetes."""
    _, name, sub = _where(request.path)
    match request.method:
        case "GET" if sub == "log":
            return "log"
        case "GET" if "watch" in request.query:
            return "watch"
        case "GET":
            return "get" if name else "list"
        case "POST":
            return "dry-run" if "dryRun" in request.query else "create"
    return request.method.lower()


def _where(path):
    """Return the plural, the name and the subresource in a path; empty where there is none."""
    _, root, *parts = path.split("/")
    rest = parts[1 if root == "api" else 2 :]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    plural, name, sub = [*rest, "", "", ""][:3]
    return plural, name, sub


def selected(item, query):
    """Tell whether an object is among what a query selects."""
    labels = item["metadata"].get("labels") or {}
    for part in filter(None, query.get("labelSelector", "").split(",")):
        key, equal, value = part.partition("=")
        if key not in labels or (equal and labels[key] != value):
            return False
    for part in filter(None, query.get("fieldSelector", "").split(",")):
        path, equal, value = re.split("(!?=)", part, maxsplit=1)
        field_value = item
        for step in path.split("."):
            field_value = field_value.get(step, "") if isinstance(field_value, dict) else ""
        if (str(field_value) == value) is not (equal == "="):
            return False
    return True


def _merged(old, change):
    if not isinstance(change, dict):
        return copy.deepcopy(change)
    merged = dict(old) if isinstance(old, dict) else {}
    for key, value in change.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged


def _now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
