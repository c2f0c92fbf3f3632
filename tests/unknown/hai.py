"""HAI Platform with a state: tasks that run until the scenario ends them, and their logs."""

import datetime as dt
import itertools
import json
import pathlib
import tempfile
import time
import urllib.parse

from tests.hai import pods
from tests.hai.server import NO_TASK
from tests.hai.server import refusal as said_no
from tests.unknown.server import Answer, Server

_MANUAL_STOP, _FAILED = 1024, 128


class Hai(Server):
    """The platform; to a scenario, its tasks look like job objects.

    Attributes:
        results: Of tasks that have ended by themselves, by uid, which is the chain's id: `succeeded`, `failed`.
        tasks: As the platform shows them, the oldest first.
    """

    def __init__(self, fault=None, point=None):
        super().__init__(fault, point)
        self.results: dict[str, str] = {}
        self.tasks: list[dict] = []
        self._stopped: list[tuple[str, dict]] = []
        self._numbers = itertools.count(1)
        self._logs = tempfile.TemporaryDirectory(prefix="unknown-hai-")

    async def close(self):
        await super().close()
        self._logs.cleanup()

    # --- for the scenario

    def jobs(self):
        return [_job(task) for task in self.tasks if task["worker_status"] != "stopped"]

    def ever(self, task):
        return [_job(item) for item in self.tasks if _launcher(item) == task]

    def stopped_by(self):
        return [(actor, _job(task)) for actor, task in self._stopped]

    def owned(self, job):
        return any(tag.startswith("tfsteps.dev/workflow=") for tag in job["tags"])

    def end(self, job, result):
        task = next(task for task in self.tasks if task["chain_id"] == job["metadata"]["uid"])
        if task["queue_status"] == "finished":  # stopped
            return
        self.results[task["chain_id"]] = result
        self._say(task, f"it {result}")
        _finish(task, result, 0 if result == "succeeded" else _FAILED)

    def _say(self, task, text):
        stamp = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        for rank in range(task["nodes"]):
            with (self._folder(task) / f"log#{rank}").open("a") as file:
                file.write(f"[{stamp}] {text}\n")

    def _folder(self, task):
        folder = pathlib.Path(self._logs.name) / str(task["id"])
        folder.mkdir(exist_ok=True)
        return folder

    # --- requests

    def actor(self, headers, body):
        return (body or {}).get("token", "nobody")

    def kind(self, request):
        return f"hai {request.path}"

    def refusal(self, request, status):
        return Answer(status, {"success": 0, "msg": f"refused with {status} as the scenario wants it"})

    async def answer(self, request):
        method = getattr(self, request.path.replace("/", "_"), None)
        return (
            Answer(*method(request.query, request.body, request.actor))
            if method
            else Answer(404, {"detail": "Not Found"})
        )

    def _found(self, query):
        keys = {"chain_id": "chain_id", "nb_name": "nb_name", "id": "id"}
        tasks = [task for task in self.tasks if all(str(task[keys[key]]) == query[key] for key in keys if key in query)]
        return tasks[-1] if tasks else None

    def _operating_task_create(self, _query, body, _actor):
        if any(task["nb_name"] == body["name"] and task["queue_status"] != "finished" for task in self.tasks):
            return 200, said_no(f"名字为 {body['name']} 的任务正在运行")
        number = next(self._numbers)
        nodes = body["resource"]["node_count"]
        task = {
            "id": number, "nb_name": body["name"], "user_name": "ada", "chain_id": f"chain-{number}",
            "first_id": number, "group": "default", "nodes": nodes, "config_json": {"schema": body},
            "priority": body.get("priority", -1),
            "restart_count": 0, "queue_status": "scheduled", "worker_status": "running", "stop_code": 0,
            "suspend_code": 0, "whole_life_state": 0, "created_at": _now(), "begin_at": _now(), "end_at": None,
            "chain_status": "running", "id_list": [number], "stop_code_list": [0],
            "tags": list(body["options"]["tags"]),
            "_pods_": [_pod(number, rank, "running") for rank in range(nodes)],
        }  # fmt: skip
        self.tasks.append(task)
        self._say(task, "it runs")
        return 200, {"success": 1, "msg": "任务已创建", "task": {**task, "tags": [], "chain_status": ""}}

    def _query_task(self, query, _body, _actor):
        task = self._found(query)
        return 200, {"success": 1, "result": {"task": task}} if task else said_no("没有符合条件的任务")

    def _query_task_list(self, query, _body, _actor):
        tasks = [task for task in reversed(self.tasks) if query["tag"] in task["tags"]]
        tasks = [task for task in tasks if query.get("queue_status") in (None, task["queue_status"])]
        return 200, {"success": 1, "result": {"tasks": tasks if query["page"] == "1" else [], "total": len(tasks)}}

    def _operating_task_stop(self, query, _body, actor):
        if not (task := self._found(query)):
            return 401, NO_TASK
        if task["queue_status"] != "finished":
            self._stopped.append((actor, task))
            _finish(task, "stopped", _MANUAL_STOP)
        return 200, {"success": 1, "msg": "stopped"}

    def _operating_task_tag(self, query, _body, _actor):
        task = self._found(query)
        task["tags"] += [query["tag"]] if query["tag"] not in task["tags"] else []
        return 200, {"success": 1, "msg": ""}

    def _operating_task_untag(self, query, _body, _actor):
        task = self._found(query)
        task["tags"] = [tag for tag in task["tags"] if tag != query["tag"]]
        return 200, {"success": 1, "msg": ""}

    def _query_task_log(self, query, _body, _actor):
        if not (task := self._found(query)):
            return 401, NO_TASK
        rank = int(query.get("rank", 0))
        data, seen = pods.read(self._folder(task), rank, json.loads(query.get("last_seen", "null")))
        code = task["_pods_"][rank]["exit_code"]
        return 200, {"success": 1, "msg": "", "data": data, "last_seen": seen and {**seen, "id": task["id"]},
                     "stop_code": task["stop_code"], "exit_code": code, "error_msg": "", "restart_log": {}}  # fmt: skip

    def _query_task_sys_log(self, query, _body, _actor):
        return (200, {"success": 1, "data": ""}) if self._found(query) else (401, NO_TASK)


def _finish(task, status, code):
    task.update(queue_status="finished", worker_status=status, chain_status="finished", stop_code=code,
                stop_code_list=[code], end_at=_now())  # fmt: skip
    for pod in task["_pods_"]:
        pod.update(status=status, exit_code={"succeeded": "0", "failed": "1"}.get(status, ""))


def _job(task):
    annotations = {"tfsteps.dev/launcher": _launcher(task)}
    return {
        "metadata": {"name": task["nb_name"], "uid": task["chain_id"], "annotations": annotations},
        "tags": task["tags"],
    }


def _launcher(task):
    prefix = "tfsteps.dev/launcher="
    return next((urllib.parse.unquote(tag.removeprefix(prefix)) for tag in task["tags"] if tag.startswith(prefix)), "")


def _pod(number, rank, status):
    pod = {"task_id": number, "pod_id": f"ada-{number}-{rank}", "job_id": rank, "node": f"node-{rank}"}
    return {**pod, "status": status, "role": "worker" if rank else "master", "exit_code": ""}


def _now():
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
