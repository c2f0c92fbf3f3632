"""The platform's REST interface: a real HTTP server, with the answers that were observed of the real ones."""

import contextlib
import datetime as dt
import http.server
import json
import threading
import time
import urllib.parse

from tests.hai import pods
from tests.hai.platform import USER, Platform, dumps
from tests.support.servers import KeepsErrors

PRIORITIES = {-1, 0, 5, 8, 10, 20, 30, 40, 50}
NO_TASK = {"success": 0, "msg": f"no task of user [{USER}] with that id, chain_id or nb_name!"}
_UNQUEUED = {"queued": None, "scheduled": "running", "finished": "finished"}


class Server:
    """A platform behind an address.

    Attributes:
        platform: Its state.
        requests: (path, seconds since the epoch) of every request.
        url: Its address.
        away: Connections are dropped without an answer.
        busy: The next requests are answered 503, as many.
        statuses: The next requests are answered with these, as a proxy does.
        logs: Whether the log of a task is known.
    """

    def __init__(self, folder, **options):
        self.platform = Platform(folder, **options)
        self.requests = []
        self.away = False
        self.busy = 0
        self.statuses = []
        self.logs = True
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 1 << 16  # headers and body in one packet

            def do_POST(self):
                server.answer(self)

            def log_message(self, *_):
                pass

        class Listener(KeepsErrors, http.server.ThreadingHTTPServer):
            daemon_threads = True

        self._http = Listener(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def close(self):
        self._http.shutdown()
        self.platform.close()
        self._http.server_close()

    def answer(self, handler):
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        address = urllib.parse.urlsplit(handler.path)
        self.requests.append((address.path, time.time()))
        if self.away:
            handler.close_connection = True
            return
        status, reply = self._reply(address.path, dict(urllib.parse.parse_qsl(address.query)), body)
        content = dumps(reply)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            handler.send_response(status)
            handler.send_header("Content-Type", "application/json")
            handler.send_header("Content-Length", str(len(content)))
            handler.end_headers()
            handler.wfile.write(content)

    def _reply(self, path, query, body):
        if self.statuses or self.busy:
            status = self.statuses.pop(0) if self.statuses else 503
            self.busy -= status == 503
            return status, "<html>"
        fields = json.loads(body) if body else {}
        token = query.pop("token", None) or fields.pop("token", None)
        if token is None:
            return 403, refusal("需要指定 token")
        if token not in self.platform.tokens:
            return 403, refusal("根据 token 未找到用户")
        if self.platform.tokens[token] is None:
            return 401, refusal("token 已过期")
        name = "_" + path.strip("/").replace("/", "_")
        endpoint = getattr(self, name, None)
        if endpoint is None:
            return 404, {"detail": "Not Found"}
        with self.platform.lock:
            return endpoint(query, fields)

    def _found(self, query):
        names = {"id": "number", "chain_id": "chain_id", "nb_name": "nb_name"}
        selector = {name: query[key] for key, name in names.items() if key in query}
        return self.platform.find(**selector) if selector else None

    # --- endpoints

    def _operating_task_create(self, _query, body):
        for name in ("version", "name", "resource"):
            if name not in body:
                return 422, {
                    "detail": [{"loc": ["body", name], "msg": "field required", "type": "value_error.missing"}]
                }
        if body["resource"].get("group", "").count("#") > 1:  # HAI splits it into two, and does not catch the error
            return 500, "Internal Server Error"
        if problem := wrong(body):
            return 200, refusal(problem)
        created = self.platform.create(body)
        if isinstance(created, str):
            return 200, refusal(created)
        shown = self.show(created)
        shown.update(tags=[], chain_status="")
        return 200, {"success": 1, "msg": "任务已创建", "task": shown}

    def _query_task(self, query, _body):
        task = self._found(query)
        return 200, {"success": 1, "result": {"task": self.show(task)}} if task else refusal("没有符合条件的任务")

    def _query_task_list(self, query, _body):
        page, size = int(query["page"]), int(query["page_size"])
        if not 0 < size <= 100:
            return 200, refusal("page_size 需要为 1 ~ 100")
        chains = {task.chain_id: task for task in self.platform.tasks}  # the newest of each
        selected = [
            chain for chain in chains.values() if query.get("tag") in (None, *self.platform.tags[chain.chain_id])
        ]
        selected = [item for item in selected if query.get("queue_status") in (None, item.queue_status)]
        selected.sort(key=lambda chain: -chain.id)
        shown = [self.show(item) for item in selected[(page - 1) * size : page * size]]
        return 200, {"success": 1, "result": {"tasks": shown, "total": len(selected)}}

    def _query_user_quota_list(self, _query, _body):
        quota = {f"node-{group}-{level}": 8 for group in self.platform.groups for level in ("LOW", "NORMAL")}
        nodes = {} if self.platform.external else {"node_quota": quota, "used_node_quota": {}}
        return 200, {"success": 1, "result": {**nodes, "spot_jupyter": 0}}

    def _query_user_training_quota_get_used(self, _query, _body):
        quota = {f"node-{group}-NORMAL": 8 for group in self.platform.groups}
        return 200, {"success": 1, "result": {"user_name": USER, "quota": quota}}

    def _operating_task_stop(self, query, _body):
        if not (task := self._found(query)):
            return 401, NO_TASK
        return 200, {"success": 1, "msg": self.platform.stop(task, query.get("op", "stop"))}

    def _operating_task_suspend(self, query, _body):
        if not (task := self._found(query)):
            return 401, NO_TASK
        return 200, {"success": 1, "msg": self.platform.stop(task, "suspend")}

    def _operating_task_priority_update(self, query, _body):
        task = self._found(query)
        if task.queue_status == "finished":
            return 200, refusal("不能更新已经结束任务的优先级")
        task.schema = {**task.schema, "priority": int(query["priority"])}
        return 200, {"success": 1, "msg": "成功修改", "timestamp": time.time()}

    def _operating_task_group_update(self, query, _body):
        task = self._found(query)
        task.schema = {**task.schema, "resource": {**task.schema["resource"], "group": query["group"]}}
        return 200, {"success": 1, "data": {"chain_id": task.chain_id}}

    def _operating_task_resume(self, query, _body):
        if not (task := self._found(query)):
            return 401, NO_TASK
        new = self.platform.resume(task)
        return 200, {"success": 1, "msg": "", "task": self.show(new)} if new else refusal("该任务正在运行")

    def _operating_task_tag(self, query, _body):
        if query["tag"].startswith("_"):
            return 200, refusal("任务 tag 不能以下划线开头")
        tags = self.platform.tags[self._found(query).chain_id]
        tags += [query["tag"]] if query["tag"] not in tags else []
        return 200, {"success": 1, "msg": ""}

    def _operating_task_untag(self, query, _body):
        tags = self.platform.tags[self._found(query).chain_id]
        tags[:] = [tag for tag in tags if tag != query["tag"]]
        return 200, {"success": 1, "msg": ""}

    def _query_task_log(self, query, _body):
        if not (task := self._found(query)) or not self.logs:
            return 401, NO_TASK
        rank, last_seen = int(query.get("rank", 0)), json.loads(query.get("last_seen", "null"))
        parts, newest, seen_id = [], None, (last_seen or {}).get("id", 0)
        for item in self.platform.chain(task):
            if item.id < seen_id:
                continue
            data, seen = pods.read(self.platform.folder / "logs" / str(item.id), rank, last_seen)
            if data != pods.NOTHING_YET:
                parts.append(data)
                seen_id = max(seen_id, item.id)
            if seen and seen["timestamp"] and (not newest or seen["timestamp"] > newest["timestamp"]):
                newest = seen
        if newest is not None:
            newest = {**newest, "id": seen_id}
        joined = "\n".join(part for part in parts if part) if parts else pods.NOTHING_YET
        rows = self.rows(task)
        code = rows[rank]["exit_code"] if rank < len(rows) else ""
        error = self.platform.error(task)
        return 200, {
            "success": 1, "msg": "get log successfully", "data": joined, "last_seen": newest,
            "stop_code": task.stop_code, "exit_code": code, "error_msg": error, "restart_log": {},
        }  # fmt: skip

    def _query_task_sys_log(self, query, _body):
        """HAI tells of all tasks of a chain, one after the other."""
        if not (task := self._found(query)):
            return 401, NO_TASK
        line, parts = "=" * 20, []
        for item in self.platform.chain(task):
            current = " (current)" if item is task else ""
            parts.append(f"id: {item.id}{current}\n{'-' * 10}\nsyslog:\n{self.platform.error(item)}\n\n{line}\n")
        return 200, {"success": 1, "data": f"{line}\n{''.join(parts)}"}

    # --- showing

    def rows(self, task):
        chain = self.platform.chain(task)
        for item in (task, *chain[-2:-1]):  # one that waits shows the pods of the run before
            with contextlib.suppress(KeyError):
                return self.platform.manager(item).pod_rows()
        return []

    def show(self, task):
        chain = self.platform.chain(task)
        waiting = "waiting_init" if task.id == task.first_id else "suspended"
        listed = ("stop_code", "suspend_code", "whole_life_state", "worker_status", "queue_status")
        times = ("created_at", "begin_at", "end_at")
        return {
            "id": task.id, "nb_name": task.name, "user_name": USER, "chain_id": task.chain_id,
            "first_id": task.first_id, "group": self.platform.group(task), "nodes": task.nodes,
            "config_json": {"environments": task.schema["spec"].get("environments", {}), "schema": task.schema},
            "priority": task.priority, "restart_count": task.restart_count, "queue_status": task.queue_status,
            "worker_status": task.worker_status, "stop_code": task.stop_code, "suspend_code": task.suspend_code,
            "whole_life_state": task.whole_life_state, "created_at": stamp(task.created_at),
            "begin_at": stamp(task.begin_at), "end_at": stamp(task.end_at), "tags": self.platform.tags[task.chain_id],
            "chain_status": _UNQUEUED[task.queue_status] or waiting, "id_list": [item.id for item in chain],
            **{f"{name}_list": [getattr(item, name) for item in chain] for name in listed},
            **{f"{name}_list": [stamp(getattr(item, name)) for item in chain] for name in times},
            "_pods_": self.rows(task) if task.queue_status != "queued" or task.id != task.first_id else [],
        }  # fmt: skip


def wrong(body):
    """Return what the platform has against a schema; empty = nothing."""
    spec, resource, options = body.get("spec") or {}, body["resource"], body.get("options", {})
    image = resource.get("image", "default")
    command = f"{spec.get('workspace', '')}/{spec.get('entrypoint', '')} {spec.get('parameters', '')}"
    checks = {
        "name 包含不支持的命名字符": any(item in body["name"] for item in "()") or len(body["name"]) > 511,
        "task config 版本应为 2": body["version"] != 2,
        "无效的 priority": body.get("priority", -1) not in PRIORITIES,
        "必须指定 task spec": not spec,
        "workspace 长度不应超过 255": len(spec.get("workspace", "")) > 255,
        "workspace 不允许有空格": " " in spec.get("workspace", ""),
        "节点数必须大于 0": resource.get("node_count", 1) <= 0,
        "运行命令 [workspace + entrypoint + params] 长度不应超过 2047": len(command) > 2047,
        f"用户没有使用 {image} 的权限": "/" in image and len(image.split("/")) != 3,
        "任务 tag 不能以下划线开头": any(tag.startswith("_") for tag in options.get("tags", [])),
        **{problem: True for service in body.get("services", []) if (problem := wrong_service(service))},
    }
    return next((message for message, is_wrong in checks.items() if is_wrong), "")


def wrong_service(service):
    """Return what the platform has against a service; empty = nothing. A type that is left out is None to it."""
    kind, port = service.get("type"), service.get("port")
    if service["name"] in ("ssh", "jupyter"):
        return f"{service['name']} 是系统保留的内建服务名"
    if kind is None:
        return f"无权自定义服务 {kind}:{port}"
    return "" if kind in ("http", "tcp", "local") else f"不支持的服务类型 {kind}"


def refusal(message):
    return {"success": 0, "msg": message}


def stamp(at):
    return at and dt.datetime.fromtimestamp(at, dt.UTC).replace(tzinfo=None).isoformat(sep=" ")
