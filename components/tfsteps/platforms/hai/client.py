"""Requests to HAI Platform: POST requests with arguments in the query; the answer has a field `success`."""

import functools
import itertools
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from tfsteps.kube.answers import Check, ShapeError, an_answer, decode
from tfsteps.kube.connections import retry_after
from tfsteps.kube.credentials import Access
from tfsteps.kube.errors import ApiError, UnexpectedAnswerError
from tfsteps.kube.http_client import PATIENCE_SECONDS, HttpClient
from tfsteps.masking import hidden
from tfsteps.platforms.hai.access import SERVER, TOKEN

Op = Literal["stop", "succeed", "fail", "suspend"]
Task = Mapping[str, Any]

_READ_SECONDS = 10.0
_DONE = (1, 2)  # values of `success` that the platform's own client accepts
_PAGE = 100
_READS = 5  # of a list that changes meanwhile
_SHOWN = 300  # characters of the platform's message
_NO_TASK = "no task of user"  # start of the platform's message for an unknown task
_NO_MATCH = "没有符合条件的任务"  # the same of a query; any other refusal tells nothing about the task
_NOT_FOUND, _TIMEOUT = 404, 408  # HAI itself sends neither: a proxy does, while its servers are replaced
_HEADING = re.compile(r"id: \d|-{10}$|(syslog|oom log):$")
_KNOWN = {  # a part that identifies the message; the original message follows with its details
    "需要指定 token": "no token was sent",
    "token 已经?过期": "the token has expired",
    "根据 token 未找到用户": "no user has this token",
    "账号为不活跃": "the account is inactive",
    "账号不活跃": "the account is inactive",
    "权限组不允许|access_scope.*不允许|无权访问该接口": "this token may not use this part of HAI",
    "未授权操作|无权操作": "the task is another user's",
    "无权为他人创建": "tasks cannot be created for another user",
    "必须指定 id, chain_id": "no task was named",
    "没有符合条件的任务": "there is no such task",
    "任务正在运行": "a task of this name has not ended yet",
    "已经超过了?": "the user has too many unfinished tasks",
    "未能在数据库中成功创建": "HAI could not store the task; ask its administrator",
    "执行.*时出现错误": "the request failed on HAI; ask its administrator",
    "不支持的命名字符": "the name contains characters that HAI does not allow",
    "config 版本": "HAI requires another version of the schema",
    "无效的 ?task_type": "HAI has no such kind of task",
    "无效的 priority|优先级": "HAI has no such priority",
    "workspace 长度|workspace 不允许|指定的 workspace": "HAI does not allow this workspace",
    "节点数必须": "the number of nodes must be greater than 0",
    "运行命令.*长度": "command and workspace are too long",
    "至少要有一个可用的 train_environments": "the user may use none of HAI's environments; ask its administrator",
    "内建镜像.*不存在": "HAI has no environment of this name",
    "没有使用.*权限": "the user may not use this image or environment",
    "train_image 格式": "the image is not registry/project/name",
    "不存在镜像|镜像仍在加载": "the image has not been loaded into HAI, or is being loaded",
    "系统保留的内建服务名": "the name of this service is reserved",
    "无权自定义服务": "the user may not have services of this type and port",
    "服务.*(命名不合法|端口|rank=0)|service name 有重复": "a service is not valid",
    "不支持的服务类型": "a service has a type that HAI does not support",
    "启动命令仅支持": "the start of a service must be one command",
    "tag 不能以下划线|下划线开头的 tag": "tags must not begin with _",
    "状态为 unschedulable": "the pods did not start in time",
    "容器遇到错误": "a pod could not be started",
    "资源释放失败": "an earlier program did not free the memory of a node",
}


class _TaskPod(msgspec.Struct):
    rank: int | str = msgspec.field(name="job_id", default=-1)
    status: str | None = ""


class _TaskAnswer(msgspec.Struct):
    """The checked fields of a task."""

    chain_id: str
    name: str = msgspec.field(name="nb_name")
    tags: list[str] | None = None
    status: str | None = msgspec.field(name="chain_status", default=None)
    code: int | str | None = msgspec.field(name="stop_code", default=None)
    codes: list[int | str] | None = msgspec.field(name="stop_code_list", default=None)
    ids: list[int | str] | None = msgspec.field(name="id_list", default=None)
    pods: list[_TaskPod] | None = msgspec.field(name="_pods_", default=None)


class _Created(msgspec.Struct):
    task: _TaskAnswer


class _One(msgspec.Struct):
    task: _TaskAnswer


class _Queried(msgspec.Struct):
    result: _One


class _TaskPage(msgspec.Struct):
    tasks: list[_TaskAnswer]
    total: int


class _Tagged(msgspec.Struct):
    result: _TaskPage


class _Quota(msgspec.Struct):
    nodes: dict[str, float] | None = msgspec.field(name="node_quota", default=None)


class _Quotas(msgspec.Struct):
    result: _Quota


class _UsedQuota(msgspec.Struct):
    quota: dict[str, float]


class _Used(msgspec.Struct):
    result: _UsedQuota


class _LogAnswer(msgspec.Struct):
    data: str | None = None
    last_seen: dict[str, Any] | None = None
    error: str | None = msgspec.field(name="error_msg", default=None)


class RequestRefusedError(ApiError):
    """The platform refused the request: HTTP 200 with `success` 0."""


class Client(HttpClient):
    """A client of one platform. Requests are retried as those to a Kubernetes API server.

    The token is sent in the body, which the platform accepts too, so that no proxy logs it.

    Attributes:
        warnings: What the platform changed of the task that was created last; empty = nothing.
    """

    def __init__(self, access: Access, patience: float = PATIENCE_SECONDS, read_seconds: float = _READ_SECONDS) -> None:
        """Connect at the first request; `patience` and `read_seconds` are as in `Api`."""
        super().__init__(access, patience, read_seconds)
        self.warnings: list[str] = []

    # --- one call an endpoint

    def create_task(self, schema: Task) -> Task:
        """Create a task and return it as the platform does: its tags and chain_status are not filled in yet.

        Sent once: the task may exist although the answer did not arrive.
        """
        task = dict(self._post_once("/operating/task/create", {}, schema, an_answer(_Created))["task"])
        requested, granted = schema.get("priority"), task.get("priority")
        if None not in (requested, granted) and granted != requested:
            why = "HAI lets external users have AUTO (-1) alone"
            self.warnings = [f"HAI made the task with priority {granted} in place of {requested}: {why}."]
        return task

    def query(self, **selector: str) -> Task | None:
        """Return the newest task of a chain, by `chain_id`, `id` or `nb_name`; None = there is none."""
        return self._newest_task(self._post, selector)

    def query_once(self, **selector: str) -> Task | None:
        """Do the same; sent once."""
        return self._newest_task(self._post_once, selector)

    def groups(self) -> frozenset[str]:
        """Return the groups of nodes of which the user has a quota; sent once."""
        quotas = self._post_once("/query/user/quota/list", check=an_answer(_Quotas))["result"].get("node_quota")
        if quotas is None:  # an external user
            quotas = self._post_once("/query/user/training_quota/get_used", check=an_answer(_Used))["result"]["quota"]
        resources = (str(name).removeprefix("node-").rpartition("-") for name in quotas)
        return frozenset(group for group, _, _ in resources if group)

    def tagged(
        self, tag: str, *, pods: bool = False, queue_status: Literal["", "queued", "scheduled"] = ""
    ) -> list[Task]:
        """Return the newest task of each of the user's chains that have a tag, the newest first.

        The platform counts pages by offset: what ends while they are read moves the others, past the next page's start.
        So the list is whole if every page names the same total, and as many chains were read; else it is read again.

        Args:
            tag: The tag.
            pods: Also read the pods of each.
            queue_status: Only tasks in this status; empty = any. A chain is unfinished if its newest task has one.

        Raises:
            ApiError: No answer, a refusal, or a list that changed each time it was read (`unavailable`).
        """
        query = {"tag": tag, "page_size": str(_PAGE), "select_pods": str(pods).lower()}
        if queue_status:
            query["queue_status"] = queue_status
        for _ in range(_READS):
            chains: dict[str, Task] = {}
            totals: set[int] = set()
            for page in itertools.count(1):
                answer = self._post("/query/task/list", {**query, "page": str(page)}, check=an_answer(_Tagged))
                read = len(chains)
                chains.update((task["chain_id"], task) for task in answer["result"]["tasks"])
                totals.add(answer["result"]["total"])
                if len(chains) < read + _PAGE:
                    break
            if totals == {len(chains)}:
                return list(chains.values())
        raise ApiError(f"{self.access.name} lists {len(chains)} of {max(totals)} tasks with the tag {tag}: try again")

    def log_once(self, chain_id: str, rank: int, last_seen: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return what a rank has printed since `last_seen` of the last answer; None = from the start. Sent once."""
        query = {"chain_id": chain_id, "rank": str(rank), "last_seen": msgspec.json.encode(last_seen).decode()}
        return self._post_once("/query/task/log", query, check=an_answer(_LogAnswer))

    def recorded(self, chain_id: str, last_seen: Mapping[str, Any] | None) -> list[str]:
        """Return the platform's own records of the newest task of a chain, in lines; empty = none.

        The answer holds the log of rank 0 since `last_seen`, too, which is not used.
        """
        error = str(self.log_once(chain_id, 0, last_seen).get("error_msg") or "")
        lines = [line.strip() for line in (*error.splitlines(), *newest_messages(self.system_log(chain_id)))]
        return [translated(line) for line in dict.fromkeys(filter(None, lines))]

    def system_log(self, chain_id: str) -> str:
        """Return the system log of a chain; empty = none."""
        return str(self._post("/query/task/sys_log", {"chain_id": chain_id}).get("data") or "")

    def stop(self, chain_id: str, op: Op = "stop") -> None:
        """End a chain; do nothing if it has ended."""
        self._post("/operating/task/stop", {"chain_id": chain_id, "op": op})

    def stop_once(self, chain_id: str) -> None:
        """End a chain; sent once."""
        self._post_once("/operating/task/stop", {"chain_id": chain_id, "op": "stop"})

    def resume(self, chain_id: str) -> None:
        """Queue a stopped chain again."""
        self._post("/operating/task/resume", {"chain_id": chain_id})

    def suspend(self, chain_id: str) -> None:
        """Pre-empt a running task; it goes straight back to the queue."""
        self._post("/operating/task/suspend", {"chain_id": chain_id})

    def set_priority(self, chain_id: str, level: int) -> None:
        """Change the level of a chain that has not ended; HAI accepts this once in ten seconds."""
        self._post_once("/operating/task/priority/update", {"chain_id": chain_id, "priority": str(level)})

    def set_group(self, chain_id: str, group: str) -> None:
        """Change the group of nodes of a chain; one that runs moves when it is queued again."""
        self._post("/operating/task/group/update", {"chain_id": chain_id, "group": group})

    def tag(self, chain_id: str, tag: str, *, on: bool) -> None:
        """Add a tag to a chain, or remove it."""
        path = "/operating/task/tag" if on else "/operating/task/untag"
        self._post(path, {"chain_id": chain_id, "tag": tag})

    # --- requests

    def _post(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        check: Check | None = None,
    ) -> dict[str, Any]:
        """Send one request and return the answer; retry while the platform is unavailable."""
        return self.retry(functools.partial(self._post_once, path, query, body, check))

    def _post_once(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        check: Check | None = None,
    ) -> dict[str, Any]:
        """Send one request, once, and return the answer.

        Raises:
            RefusedError: The platform refused; the message says why.
            ApiError: Any other answer, or none.
        """
        with self.unreachable():
            content = msgspec.json.encode({**(body or {}), "token": self.access.token(False)})
        headers = {"Content-Type": "application/json"}
        response = self.exchange("POST", path, query or {}, content, headers, preload=True)
        wrong: object = ""
        try:
            answer = decode(response.data)
            if response.status == 200 and answer.get("success") in _DONE:
                if check:
                    check(answer)
                self.accepted(response.headers)
                return answer
        except ShapeError as error:
            wrong, answer = error, {}
        reason = translated(hidden(str(answer.get("msg") or answer.get("detail") or ""))[:_SHOWN])
        if response.status == 200 and "success" in answer:
            raise RequestRefusedError(reason or "it does not say why", 200)
        if response.status in (401, 403):
            hint = f"; check the token in {TOKEN}, and the address in {SERVER}"
            about_token = not reason.startswith(_NO_TASK)
            raise ApiError(
                f"{self.access.name} refused: {reason or response.status}{hint if about_token else ''}", response.status
            )
        if response.status < 400:
            raise UnexpectedAnswerError(f"POST {path}", wrong or f"HTTP {response.status}", response.data)
        message = f"{self.access.name} answered {path} with HTTP {response.status} {reason}".strip()
        refused = ApiError(message, response.status, retry_after=retry_after(response.headers))
        refused.transient = response.status == _TIMEOUT or (response.status == _NOT_FOUND and self.known)
        raise refused

    @staticmethod
    def _newest_task(ask: Callable[..., dict[str, Any]], selector: Mapping[str, str]) -> Task | None:
        try:
            return dict(ask("/query/task", selector, check=an_answer(_Queried))["result"]["task"])
        except RequestRefusedError as error:
            if _NO_MATCH in str(error):
                return None
            raise


def newest_messages(system_log: str) -> list[str]:
    """Return the lines about the newest task of a chain in its system log, which contains all tasks, newest last."""
    parts = [part.strip() for part in system_log.split("=" * 20)]
    last = next((part for part in reversed(parts) if part), "")
    return [line for line in last.splitlines() if line.strip() and not _HEADING.match(line)]


def translated(text: str) -> str:
    """Return the meaning of a platform's message in English, followed by the message; an unknown one is unchanged."""
    for pattern, meaning in _KNOWN.items():
        if re.search(pattern, text):
            return f"{meaning} ({text})"
    return text
