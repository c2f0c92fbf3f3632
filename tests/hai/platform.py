"""A small HAI Platform: tasks, chains, quotas, a scheduler that pre-empts, and managers that run and end the ranks."""

import contextlib
import itertools
import json
import os
import pathlib
import pickle
import random
import socket
import sys
import threading
import time
import uuid
from dataclasses import dataclass, field

from tests.hai import pods

STOP, INTERRUPT, FAILED, INIT_FAILED, TIMEOUT, MANUAL_STOP, HOOK_RESTART = 1, 16, 128, 256, 512, 1024, 2048
MANUAL_SUCCEEDED, MANUAL_FAILED = 4096, 8192
UNSCHEDULABLE = 32
USER = "ada"
_TICK_SECONDS = 0.05
_ERROR_SECONDS = 0.3  # HAI records why a task failed after the task is finished
_WORST = ["failed", "stopped", "created", "building", "running", "succeeded"]
_OPS = {"stop": MANUAL_STOP, "succeed": MANUAL_SUCCEEDED, "fail": MANUAL_FAILED}


@dataclass
class Task:
    """A row of the table of tasks: one run of a chain."""

    id: int
    chain_id: str
    first_id: int
    schema: dict
    restart_count: int = 0
    queue_status: str = "queued"
    worker_status: str = "queued"
    stop_code: int = 0
    suspend_code: int = 0
    whole_life_state: int = 0
    created_at: float = field(default_factory=time.time)
    begin_at: float | None = None
    end_at: float | None = None
    pods: list = field(default_factory=list)

    @property
    def nodes(self):
        return self.schema["resource"].get("node_count", 1)

    @property
    def name(self):
        return self.schema["name"]

    @property
    def priority(self):
        return self.schema.get("priority", -1)


class Platform:
    """The platform's state, and the threads that move it.

    Attributes:
        nodes: How many nodes are ready; may change at any time.
        received, final: Seconds that ranks get to answer a notice, and then to leave; 5 and 5 in reality, where no
            machine stands still.
        quota: Unfinished tasks that a user may have.
        building: Seconds from the grant of the nodes to the start of the ranks.
        manager_delay: Seconds from the start of the ranks to that of the task's manager.
        unanswered: How many of the next reports of each source are dropped without an answer, as by a manager that
            is replaced.
        image_missing: Pods stay in `building`, as with an image that cannot be pulled.
        unschedulable_after: Seconds after which pods that have not started count as unschedulable; 1 to 3 minutes in
            reality.
        manager_fault: The manager of a task cannot be made.
        external: The user is an external one.
        groups: The groups of nodes of which the user has a quota.
        default_group: The one that `default` means.
    """

    def __init__(self, folder, nodes=8, received=10.0, final=2.0):
        self.folder = pathlib.Path(folder)
        self.nodes = nodes
        self.received, self.final = received, final
        self.quota = 10000
        self.building = self.manager_delay = 0.0
        self.unanswered = {}
        self.image_missing = self.manager_fault = self.external = False
        self.groups, self.default_group = ["training", "v100"], "training"
        self.unschedulable_after = 60.0
        self.errors = {}  # what the platform records of a failed task: when, and the text
        self.tokens = {"secret-token": USER}
        self.tasks = []
        self.tags = {}
        self.banned = set()
        self.lock = threading.RLock()
        self._ids = itertools.count(1)
        self._managers = {}
        self._closing = False
        self._scheduler = threading.Thread(target=self._schedule, daemon=True)
        self._scheduler.start()

    def close(self):
        self._closing = True
        self._scheduler.join()
        for manager in list(self._managers.values()):
            manager.end()

    # --- tasks and chains

    def chain(self, task):
        return [item for item in self.tasks if item.chain_id == task.chain_id]

    def find(self, number=None, chain_id=None, nb_name=None):
        """Return the newest task of the chain that is meant."""
        if number is not None:
            ids = {task.chain_id for task in self.tasks if task.id == int(number)}
        elif chain_id is not None:
            ids = {chain_id}
        else:
            ids = {task.chain_id for task in self.tasks[-1::-1] if task.name == nb_name}
        tasks = [task for task in self.tasks if task.chain_id in ids]
        return tasks[-1] if tasks else None

    def unfinished(self):
        return [task for task in self.tasks if task.queue_status != "finished"]

    def create(self, schema):
        """Return a new task; a text is why there is none."""
        with self.lock:
            if any(item.name == schema["name"] for item in self.unfinished()):
                return f"名字为 {schema['name']} 的任务正在运行"
            if len(self.unfinished()) >= self.quota:
                return f"未完成的任务已经超过 {self.quota} 个"
            number = next(self._ids)
            if self.external:  # HAI sets the priority of external users to AUTO, and does not report that
                schema = {**schema, "priority": -1}
            task = Task(number, str(uuid.uuid4()), number, schema)
            task.whole_life_state = schema["options"].get("whole_life_state", 0)
            self.tasks.append(task)
            self.tags[task.chain_id] = list(schema["options"].get("tags", []))
            return task

    def again(self, task):
        """Queue a finished task's chain again, at its old place in line. Numbers have gaps."""
        next(self._ids)
        new = Task(next(self._ids), task.chain_id, task.first_id, task.schema, task.restart_count + 1)
        new.whole_life_state = task.whole_life_state
        self.tasks.append(new)
        return new

    def stop(self, task, op):
        """Apply one of the four operations; tell what is said."""
        with self.lock:
            if task.queue_status == "finished":
                return f"{task.name} 已经停止"
            if task.queue_status == "queued":
                if op != "suspend":
                    task.queue_status, task.worker_status, task.end_at = "finished", "canceled", time.time()
                return f"{task.name} 并没有在运行"
            if op != "suspend":
                self.banned.add(task.chain_id)
            self._managers[task.id].notify(INTERRUPT if op == "suspend" else _OPS[op])
            return f"{task.name} [{op}]"

    def resume(self, task):
        with self.lock:
            if any(item.name == task.name for item in self.unfinished()):
                return None
            self.banned.discard(task.chain_id)
            return self.again(task)

    def hook_restart(self, task):
        """Stop as a failed check of the hardware does."""
        self._managers[task.id].stop(HOOK_RESTART)

    def interrupt_at_once(self, task):
        """Pre-empt a task whose ranks go at once: HAI has queued it again after 0.6 s."""
        self._managers[task.id].stop(INTERRUPT)

    def delete_pod(self, task, rank):
        """Delete a pod as kubectl, an eviction or a drained node does."""
        self._managers[task.id].delete_pod(rank)

    def watchdog(self, task, text):
        """Stop a task that printed nothing for too long: HAI marks all its pods as failed."""
        self._managers[task.id].fail_all(TIMEOUT, text)

    def error(self, task):
        """Return what is recorded of a failed task; empty = nothing yet."""
        at, text = self.errors.get(task.id, (0.0, ""))
        return text if time.time() > at else ""

    def manager(self, task):
        return self._managers[task.id]

    def group(self, task):
        """Return the group of nodes of a task, without its zone."""
        asked = task.schema["resource"].get("group", "default").partition("#")[0]
        return self.default_group if asked.lower() == "default" else asked

    # --- the scheduler

    def _schedule(self):
        while not self._closing:
            with self.lock:
                auto = [task for task in self.unfinished() if task.priority == -1]
                if any(self.group(task) not in self.groups for task in auto):  # HAI's takes the maximum of nothing
                    time.sleep(_TICK_SECONDS)
                    continue
                room = self.nodes
                blocked = False
                for task in sorted(self.unfinished(), key=lambda task: (-task.priority, task.first_id)):
                    fits = not blocked and task.nodes <= room
                    room -= task.nodes if fits else 0
                    blocked = blocked or not fits
                    if fits and task.queue_status == "queued" and self._free() >= task.nodes:
                        task.begin_at, task.worker_status = time.time(), "created"
                        self._managers[task.id] = Manager(self, task)
                        task.queue_status = "scheduled"  # last: who sees it asks for the manager, without the lock
                    elif not fits and task.queue_status == "scheduled":
                        self._managers[task.id].notify(INTERRUPT)
            time.sleep(_TICK_SECONDS)

    def _free(self):
        return self.nodes - sum(item.nodes for item in self.unfinished() if item.queue_status == "scheduled")

    def finished(self, manager, code):
        """Take a run's end; the next run of the chain is there at the same moment if there is one."""
        task = manager.task
        with self.lock:
            again = (code & (INTERRUPT | UNSCHEDULABLE) or code >= HOOK_RESTART) and task.chain_id not in self.banned
            task.stop_code = code  # HAI adds MANUAL_STOP to a stop during an interruption only after it stored the code
            task.worker_status = next(item for item in _WORST if item in manager.statuses())
            task.queue_status, task.end_at = "finished", time.time()
            if manager.error:
                self.errors[task.id] = (time.time() + _ERROR_SECONDS, manager.error)
            if again and not self._closing:
                self.again(task)


class Manager(threading.Thread):
    """Runs the ranks of one task, and ends them."""

    def __init__(self, platform, task):
        super().__init__(daemon=True)
        self.platform, self.task = platform, task
        self.pods = []
        self._status = ["building"] * task.nodes
        self._codes = [""] * task.nodes
        self._code = 0
        self._notices = []
        self._deleted = set()
        self._up = threading.Event()
        self.error = ""
        self._ear = None
        self._folder = platform.folder / "tasks" / str(task.id)
        self.host = "127." + ".".join(str(random.randrange(1, 250)) for _ in range(3))  # all listen on one port
        self.start()

    def statuses(self):
        return self._status

    def pod_rows(self):
        ids = [f"{USER}-{self.task.id}-{rank}" for rank in range(self.task.nodes)]
        return [
            {"task_id": self.task.id, "pod_id": name, "job_id": rank, "status": self._status[rank],
             "node": f"node-{rank}", "role": "worker" if rank else "master", "exit_code": self._codes[rank]}
            for rank, name in enumerate(ids)
        ]  # fmt: skip

    def notify(self, code):
        """Announce the end to rank 0, wait, and end all."""
        if not self._notices:
            self._notices.append(code)
            threading.Thread(target=self._suspend, args=(code,), daemon=True).start()

    def _suspend(self, code):
        self._up.wait(60)  # notices are queued until the manager reads them
        self.task.suspend_code = 1
        if self.pods and pods.may_isolate():
            self.pods[0].set_flag("1")
        # HAI waits for all of this time, answered or not, and then takes the flag back.
        pods.wait_for(lambda: self._code, self.platform.received if self.pods else 0.0)
        if self.pods and pods.may_isolate() and not self._code:
            self.pods[0].set_flag("0")
        if self.task.suspend_code < 2:
            self.stop(code)
        pods.wait_for(lambda: self._code, self.platform.final)
        self.stop(code)

    def stop(self, code):
        """Delete all pods."""
        if self._code:
            return
        if code & (MANUAL_SUCCEEDED | MANUAL_FAILED):
            self._status = ["succeeded" if code & MANUAL_SUCCEEDED else "failed"] * self.task.nodes
        self._code = code

    def delete_pod(self, rank):
        self._deleted.add(rank)
        self.pods[rank].delete()

    def fail_all(self, code, text):
        """Mark all pods as failed, and stop."""
        self.error += text
        self._status = ["failed"] * self.task.nodes
        self.stop(code)

    def end(self):
        self.stop(MANUAL_STOP)
        self.join()

    def run(self):
        if self.platform.manager_fault:  # HAI sets the pods to stopped, and the task to finished without a stop code
            self._status = ["stopped"] * self.task.nodes
            self.platform.finished(self, 0)
            return
        self.task.worker_status = "building"
        pods.wait_for(lambda: self._code, self.platform.building)
        if not (self.platform.image_missing or self._code):
            self._start()
        pods.wait_for(lambda: self._code, self.platform.manager_delay)  # HAI starts the pods before the manager
        self._listen()
        try:
            self._look()
            self._judge_early_ends()
            self._watch()
        finally:
            self._ear.shutdown(socket.SHUT_RDWR)  # closing alone does not wake who accepts
            self._ear.close()
        self.platform.finished(self, self._code)

    def _look(self):
        """Note which pods have ended, and how."""
        for rank, pod in enumerate(self.pods):
            code = pod.exit_code
            if rank in self._deleted:
                self._status[rank] = "stopped"
            elif code is not None:
                self._codes[rank] = str(code)
                self._status[rank] = "failed" if code else "succeeded"
        self.task.worker_status = next(item for item in _WORST if item in self._status)

    def _judge_early_ends(self):
        """Judge pods that ended before their manager: one that failed makes HAI mark all that run as failed, too."""
        ended = [status in ("succeeded", "failed", "stopped") for status in self._status]
        if {"failed", "stopped"} & set(self._status) and not all(ended):
            self._status = [status if over else "failed" for status, over in zip(self._status, ended, strict=True)]
            self._code |= INIT_FAILED
        elif all(ended):
            self._code |= STOP

    def _watch(self):
        limit, begun = self.task.schema["options"].get("timeout"), time.time()
        while not self._code:
            self._look()
            late = limit and time.time() > self.task.begin_at + limit
            if "failed" in self._status:
                self._code |= FAILED | STOP
            elif "stopped" in self._status or set(self._status) == {"succeeded"} or late:
                self._code |= STOP  # the code of a normal end is also that of a deleted pod, and of the timeout
            elif "building" in self._status and time.time() > begun + self.platform.unschedulable_after:
                self._count_as_unschedulable()
            time.sleep(_TICK_SECONDS)
        for pod in self.pods:
            pod.delete()
        self._status = ["stopped" if status in ("building", "running") else status for status in self._status]

    def _count_as_unschedulable(self):
        """Queue the task again: HAI does so with pods that are still building, too, and marks them as failed."""
        self.error += f"任务状态为 unschedulable {self.task.name}"
        self._status = ["failed" if status == "building" else status for status in self._status]
        self._code |= UNSCHEDULABLE

    def _start(self):
        self._folder.mkdir(parents=True)
        hosts = self._folder / "hosts"
        names = [f"{USER}-{self.task.id}-0", f"{USER}-{self.task.id}-manager-0"]
        hosts.write_text(f"127.0.0.1 localhost {names[0]}\n{self.host} {names[1]}\n")
        port = free_port()
        for rank in range(self.task.nodes):
            script = self._folder / f"run-{rank}.sh"
            script.write_text(self._script(rank, port))
            log = pods.Log(self.platform.folder / "logs" / str(self.task.id), rank)
            env = {
                "PATH": os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]),
                "HOME": "/tmp",
                "TMPDIR": str(self._folder),  # what ranks that are killed leave goes with the test
            }
            self.pods.append(pods.Pod(f"{USER}-{self.task.id}-{rank}", script, env, hosts, log))
            self._status[rank] = "running"

    def _script(self, rank, port):
        """Return the shell script of a rank: values stand in it as the submitter wrote them."""
        task, spec = self.task, self.task.schema["spec"]
        env = {
            "WORLD_SIZE": task.nodes, "RANK": rank, "MARSV2_RANK": rank,
            "MASTER_ADDR": "127.0.0.1", "MASTER_IP": "127.0.0.1", "MASTER_PORT": port,
            "MARSV2_TASK_ID": task.id, "MARSV2_NB_NAME": task.name, "MARSV2_USER": USER, "CHAIN_ID": task.chain_id,
            "MARSV2_TASK_TYPE": "training", "MARSV2_WHOLE_LIFE_STATE": task.whole_life_state,
        }  # fmt: skip
        env.update(spec.get("environments", {}))  # last: the user's values win over the platform's
        exports = "\n".join(f"export {key}={value}" for key, value in env.items())
        entry, parameters = spec["entrypoint"], spec.get("parameters", "")
        if spec.get("entrypoint_executable"):
            command = f"{entry} {parameters}"
        else:
            command = f"{'python3 -u' if entry.endswith('.py') else 'bash'} {entry} {parameters}"
        lines = [
            "set -e",
            exports,
            f"cd {spec.get('workspace', '')}",
            "export PYTHONPATH=${PWD}:${PYTHONPATH}",
            command,
        ]
        return "\n".join(lines) + "\n"

    # --- what ranks tell their manager

    def _listen(self):
        self._ear = socket.create_server((self.host, 7000))
        self._up.set()
        threading.Thread(target=self._hear, daemon=True).start()

    def _hear(self):
        while True:
            try:
                connection = self._ear.accept()[0]
            except OSError:
                return
            # Who is killed while it talks is not to end us.
            with connection, contextlib.suppress(OSError, ValueError, EOFError, pickle.UnpicklingError):
                self._take(connection)

    def _take(self, connection):
        size = int(connection.recv(8))
        body = b""
        while len(body) < size - 8 and (part := connection.recv(4096)):
            body += part
        what = pickle.loads(body)
        source = what["source"]
        if self.platform.unanswered.get(source, 0):
            self.platform.unanswered[source] -= 1
            return
        self.task.suspend_code = {"receive_suspend_command": 2, "go_suspend": 3}.get(source, self.task.suspend_code)
        self.task.whole_life_state = what.get("whole_life_state", self.task.whole_life_state)
        with contextlib.suppress(OSError):  # it may have waited for long enough
            connection.sendall(pickle.dumps({"success": 1, "msg": ""}))
        if source == "go_suspend":
            self.stop(self._notices[0] if self._notices else INTERRUPT)


def free_port():
    """Return a port below those that the kernel gives to outgoing connections."""
    while True:
        port = random.randrange(12000, 20000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            return port


def dumps(value):
    """Return JSON as the platform writes it, times as text."""
    return json.dumps(value, ensure_ascii=False, default=str).encode()
