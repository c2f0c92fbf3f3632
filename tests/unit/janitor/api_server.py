"""An API server with the objects of several namespaces, which selects and deletes as the real one does."""

import contextlib
import re

from tests.wire.scripted import Answer, refusal, serve
from tfsteps.janitor.sweep import Sweep
from tfsteps.kube.client import Api
from tfsteps.systems import registry

_PATH = re.compile(r"/apis?/((?:[^/]+/)?v\w+)(?:/namespaces/([^/]+))?/([^/]+)(?:/([^/]+))?")

_KINDS = {(kind.resource.api, kind.resource.plural): kind.resource.kind for kind in registry.kinds()} | {
    ("v1", "pods"): "Pod",
    ("v1", "namespaces"): "Namespace",
    ("argoproj.io/v1alpha1", "workflows"): "Workflow",
    ("toy.example/v1", "toyruns"): "ToyRun",
}


class FakeApiServer:
    """The objects, by (API, plural). `before(number, asked)` is called before each answer, to change them.

    Broken objects may be among them: they are selected by what can be read of them.
    """

    def __init__(self, objects, before=lambda number, asked: None):
        self.objects = objects
        self.before = before
        self.deleted = []  # uids
        self.asked = []

    def answer(self, asked):
        self.before(len(self.asked), asked)
        self.asked.append(asked)
        api, namespace, plural, name = _PATH.fullmatch(asked.path).groups()
        items = self.objects.get((api, plural))
        if items is None:
            return refusal(404)
        meant = [item for item in items if namespace in (None, _of(item, "namespace"))]
        if name:
            identity = {"apiVersion": api, "kind": _KINDS[api, plural]}
            return self._one(asked, [{**identity, **item} for item in meant if _of(item, "name") == name])
        meant = [{"apiVersion": api, **item} for item in meant if _selected(item, asked.query)]
        body = {
            "apiVersion": api,
            "kind": f"{_KINDS[api, plural]}List",
            "metadata": {"resourceVersion": "1"},
            "items": meant,
        }
        return Answer(body=body)

    def _one(self, asked, item):
        if not item:
            return refusal(404, "NotFound")
        if asked.method == "DELETE":
            uid = asked.body["preconditions"]["uid"]
            assert uid == item[0]["metadata"]["uid"]
            self.deleted.append(uid)
            return Answer(body={"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success"})
        return Answer(body=_stored(item[0]))

    def sweep(self, kinds, namespace="", **options):
        """Make a pass; return what was said, and the count."""
        lines = []
        with serve(self.answer) as server:
            count = Sweep(Api(server.access(), patience=0), kinds, namespace, lines.append, **options).run()
        return lines, count


def _stored(item):
    return {**item, "metadata": {"resourceVersion": "1", **item["metadata"]}}


def _of(item, key, default=None):
    metadata = item.get("metadata", {}) if isinstance(item.get("metadata"), dict) else {}
    return metadata.get(key, default)


def _selected(item, query):
    labels = _of(item, "labels")
    if not isinstance(labels, dict) and "tfsteps.dev" not in query.get("labelSelector", ""):
        return False
    for term in filter(None, query.get("labelSelector", "").split(",")):
        key, equals, value = term.partition("=")
        if isinstance(labels, dict) and (key not in labels or (equals and labels[key] != value)):
            return False
    name = re.search(r"metadata\.name=([^,]+)", query.get("fieldSelector", ""))
    if name and _of(item, "name") != name[1]:
        return False
    with contextlib.suppress(LookupError, TypeError):
        return f"status.phase!={item['status']['phase']}" not in query.get("fieldSelector", "")
    return True
