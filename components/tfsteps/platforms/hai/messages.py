"""Messages of HAI Platform about tasks and requests, in English if they are known."""

import re

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


def newest(system_log: str) -> list[str]:
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
