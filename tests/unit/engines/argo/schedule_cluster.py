"""A model of an API server that keeps ConfigMaps and Workflows, and of the controller that starts what may start."""

import copy
import json
import time
from types import SimpleNamespace

from tfsteps.engines.argo import rule_runs, schedule_object
from tfsteps.kube.errors import ApiError
from tfsteps.schedule import from_plain
from tfsteps.schedule.types import utc

CREATED = 1_767_225_600  # 2026-01-01T00:00:00Z
TEMPLATE = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Workflow",
    "metadata": {"generateName": "train-", "labels": {"team": "vision", "tfsteps.dev/pipeline": "train"}},
    "spec": {"entrypoint": "main", "templates": [{"name": "main", "container": {"image": "busybox:1.37"}}]},
}


class Died(BaseException):
    """The janitor's process ended."""


def merge(old, patch):
    if not (isinstance(old, dict) and isinstance(patch, dict)):
        return patch
    merged = {**old, **{key: merge(old.get(key, {} if isinstance(value, dict) else None), value)
                        for key, value in patch.items()}}  # fmt: skip
    return {key: value for key, value in merged.items() if value is not None}


class Cluster:
    """Objects by kind and name. `before` and `after` are called with the number of each request of a client.

    Attributes:
        clock: Of the server and of the janitor.
        starts: How often a run of each date has started something.
        mistaken: Dates that were recorded as removed while their run existed.
        never_started: Dates whose run was deleted, or stopped for a newer one, before it started something.
        results: What was recorded of each date, by the last record of it.
    """

    def __init__(self, plain, name="nightly"):
        self.objects = {"configmaps": {}, "workflows": {}}
        self.clock = float(CREATED)
        self.starts, self.results, self.lines, self.never_started, self.mistaken = {}, {}, [], set(), set()
        self.number, self.uids = 0, 0
        self.before = self.after = lambda number: None
        self.refuse_creation = False
        self.stopping = SimpleNamespace(is_set=lambda: False)
        self.store("configmaps", schedule_object.config_map(from_plain(plain), TEMPLATE, name))
        self.name = name

    # --- what users and controllers do

    @property
    def schedule(self):
        return self.objects["configmaps"][self.name]

    def change(self, plain):
        self.schedule["data"] = schedule_object.config_map(from_plain(plain), TEMPLATE, self.name)["data"]
        self._changed("configmaps", self.name)

    def annotate(self, **marks):
        self.schedule["metadata"]["annotations"] = merge(self.schedule["metadata"].get("annotations", {}), marks)
        self._changed("configmaps", self.name)

    def store(self, plural, item):
        self.uids += 1
        meta = {"namespace": "ml", "uid": f"uid-{self.uids}", "creationTimestamp": utc(int(self.clock))}
        item = copy.deepcopy({**item, "metadata": {**item["metadata"], **meta, "resourceVersion": "0"}})
        self.objects[plural][item["metadata"]["name"]] = item
        self._changed(plural, item["metadata"]["name"])
        return item

    def _changed(self, plural, name):
        """Give an object another version; start a Workflow that may start, as its controller does."""
        self.uids += 1
        item = self.objects[plural][name]
        item["metadata"]["resourceVersion"] = str(self.uids)
        if plural == "workflows" and not item["spec"].get("suspend") and not item.get("status"):
            item["status"] = {"phase": "Running"}
            if not item["spec"].get("shutdown") and "tfsteps.dev/schedule-uid" in item["metadata"].get("labels", {}):
                date = int(name.rpartition("-")[2])
                self.starts[date] = self.starts.get(date, 0) + 1
        if plural == "workflows" and item["spec"].get("shutdown"):
            item["status"] = {"phase": "Failed"}
            self.never_started |= {int(name.rpartition("-")[2])} - self.starts.keys()
        text = (item["metadata"].get("annotations") or {}).get(schedule_object.STATE)
        if plural == "configmaps" and text:
            records = json.loads(text)["records"]
            self.results |= {record["date"]: record["result"] for record in records}
            there = {run["metadata"]["uid"] for run in self.objects["workflows"].values()}
            self.mistaken |= {record["date"] for record in records if record["result"] == "removed"
                              and record.get("run") in there}  # fmt: skip

    def remove(self, name):
        del self.objects["workflows"][name]
        date = name.rpartition("-")[2]
        self.never_started |= {int(date)} - self.starts.keys() if date.isdigit() else set()

    def end(self, date, phase):
        item = self.objects["workflows"].get(f"{self.name}-{date}")
        if item and (item.get("status") or {}).get("phase") == "Running":
            item["status"]["phase"] = phase

    # --- the client

    def keep(self):
        """Make one pass of a janitor."""
        return rule_runs.keep_schedules(self, "", self.lines.append, False)

    def server_time(self):
        return self.clock

    def _request(self):
        self.number += 1
        self.before(self.number)
        return self.number

    def iterate(self, resource, namespace, labelSelector=""):  # noqa: N803  of the API
        number = self._request()
        terms = [term.partition("=") for term in labelSelector.split(",") if term]
        items = [
            copy.deepcopy(item)
            for item in self.objects.get(resource.plural, {}).values()
            if all(
                key in (item["metadata"].get("labels") or {})
                and (not equals or item["metadata"]["labels"][key] == value)
                for key, equals, value in terms
            )
        ]
        self.after(number)
        yield from items

    def _there(self, resource, name):
        item = self.objects[resource.plural].get(name)
        if item is None:
            raise ApiError("not found", 404, "NotFound", about=name)
        return item

    def get(self, resource, namespace, name, once=False):
        self._request()
        return copy.deepcopy(self._there(resource, name))

    def gone(self, resource, namespace, name, uid):
        item = self.objects[resource.plural].get(name)
        return item is None or item["metadata"]["uid"] != uid

    def create(self, resource, namespace, body):
        number = self._request()
        if self.refuse_creation:
            raise ApiError("quota", 403, "Forbidden")
        if body["metadata"]["name"] in self.objects[resource.plural]:
            raise ApiError("exists", 409, "AlreadyExists")
        item = copy.deepcopy(self.store(resource.plural, body))
        self.after(number)
        return item

    def patch(self, resource, namespace, name, body):
        number = self._request()
        item = self._there(resource, name)
        for key in ("uid", "resourceVersion"):
            if body["metadata"].get(key, item["metadata"][key]) != item["metadata"][key]:
                raise ApiError("changed", 409, "Conflict")
        self.objects[resource.plural][name] = merge(item, copy.deepcopy(body))
        self._changed(resource.plural, name)
        answer = copy.deepcopy(self.objects[resource.plural][name])
        self.after(number)
        return answer

    def delete(self, resource, namespace, name, uid):
        number = self._request()
        if self.gone(resource, namespace, name, uid):
            return False
        del self.objects[resource.plural][name]
        self.after(number)
        return True


def use_clock(cluster, monkeypatch):
    """Make the janitor's clock that of the cluster."""
    monkeypatch.setattr(rule_runs, "time", SimpleNamespace(time=lambda: cluster.clock, monotonic=time.monotonic))
