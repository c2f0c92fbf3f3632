"""Cases in which something happens to a job, or to its launcher, on the way."""

import functools
import pathlib
import signal
import time
from collections.abc import Callable
from typing import Any

from tests.conformance.case import Case
from tests.conformance.control_channel import WAIT_FOR_RELEASE, release
from tests.conformance.environment import Environment
from tests.conformance.verdicts import sh, standin
from tests.support.waiting import until
from tfsteps import spec
from tfsteps.kube.resource import PODS, Resource
from tfsteps.runs import code_archive, store
from tfsteps.runs.events import JobChanged, ReplicaState, State
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import CodeSource, TrainingJob
from tfsteps.systems import registry
from tfsteps.systems.base import Handle
from tfsteps.systems.base import System as SystemOf
from tfsteps.systems.kubernetes.job_kind import RenderedJob, create
from tfsteps.systems.kubernetes.permissions import CONFIG_MAPS

_SECRETS = Resource("v1", "secrets", "Secret")
_QUOTAS = Resource("v1", "resourcequotas", "ResourceQuota")
_WORKER = {"roles": {"worker": {}}}
_SHORT = sh("echo up; sleep 4; echo end")
_UNTIL_RELEASED = sh(f"echo up; {WAIT_FOR_RELEASE}; echo end")
_LONG = sh("echo up; exec sleep 600")

CASES: list[Case] = []


def _case(
    name: str, *needs: str, alone: bool = False, shared: bool = False
) -> Callable[[Callable[[Environment], None]], None]:
    """Put a function into the table, with the features that it needs."""

    def put(run: Callable[[Environment], None]) -> None:
        CASES.append(Case(name, run, frozenset(needs), alone, shared=shared))

    return put


# --- the longest first

_MANY = {"kubeflow": 32}
"""How many pods a system is asked for; 11 where it is not here, which show that numbers have two digits. What follows
the pods and reads their logs is the same for all, and a pod costs the test cluster a second of CPU."""


@_case("many replicas", "worker", "success_all_workers", "live_logs")
def _(environment: Environment) -> None:
    count = _MANY.get(environment.system.name, 11)
    roles = {"worker": {"replicas": count}}
    launcher = environment.launch({"roles": roles, "success": "all_workers", **sh("echo I am $TFSTEPS_INDEX")})
    launcher.ends(0, State.SUCCEEDED)
    assert sorted(launcher.lines()) == sorted((f"worker-{i}", f"I am {i}") for i in range(count))
    assert {replica.state for replica in launcher.status.replicas} == {ReplicaState.SUCCEEDED}
    until(lambda: not environment.pods())


@_case("the total deadline passes while the launcher stands still", "deadlines")
def _(environment: Environment) -> None:
    ending = sh("echo up; trap 'exit 143' TERM; sleep 600 & wait")  # as most programs, not at SIGKILL alone
    launcher = environment.launch({**_WORKER, **ending, "deadlines": {"total": "12s"}})
    environment.job()
    launcher.signal(signal.SIGSTOP)
    time.sleep(14)  # meanwhile some systems end the job themselves, unless its pods are late
    launcher.signal(signal.SIGCONT)
    launcher.ends(11, State.FAILED, "DeadlineExceeded")
    assert launcher.failure.exit_code is None, launcher.failure


# --- suspended, deleted, replaced


@_case("suspended at first and resumed", "created_suspended", "pause")
def _(environment: Environment) -> None:
    launcher = environment.launch({**_WORKER, **_SHORT, **environment.system.created_suspended()})
    launcher.until(State.SUSPENDED)
    assert not environment.pods()
    environment.pause(paused=False)
    launcher.ends(0, State.SUCCEEDED)
    assert launcher.lines() == [("worker-0", "up"), ("worker-0", "end")]


@_case("paused from outside and resumed", "pause")
def _(environment: Environment) -> None:
    launcher = environment.launch(
        {**_WORKER, **sh(f"trap 'exit 143' TERM; echo up; {WAIT_FOR_RELEASE} & wait; echo end")}
    )
    launcher.until_said("up")
    environment.pause(paused=True)
    launcher.until(State.SUSPENDED)
    until(lambda: not environment.pods(leaving=True))
    time.sleep(7)  # as long as a launcher might take a pause for a job that restarts too often
    environment.pause(paused=False)
    up = ("worker-0", "up")
    until(lambda: launcher.lines().count(up) == 2)
    release(environment, launcher, "worker-0")
    launcher.ends(0, State.SUCCEEDED)
    assert launcher.lines() == [up, up, ("worker-0", "end")]
    assert [incarnation.state for incarnation in launcher.status.replicas[0].incarnations] == [
        ReplicaState.STOPPED,
        ReplicaState.SUCCEEDED,
    ]
    assert launcher.status.replicas[0].restarts == 0


@_case("deleted from outside")
def _(environment: Environment) -> None:
    launcher = environment.launch({**_WORKER, **_LONG})
    launcher.until(State.RUNNING)
    environment.delete(environment.job())
    launcher.ends(13, State.LOST, "Deleted")
    assert "deleted, not by this launcher" in launcher.failure.summary
    until(environment.gone)


@_case("replaced by another of the same name", shared=True)
def _(environment: Environment) -> None:
    fields = {**_WORKER, **_LONG}
    handle = _start(environment, fields)
    environment.delete(environment.job())
    until(lambda: not environment.jobs())
    system = registry.get(environment.system.name, namespace=environment.namespace)
    again = RenderedJob(plan(environment, fields)[0])
    new = create(environment.api, environment.system.kind, _job(environment, system, fields)[0], again)
    last = _end(handle)
    handle.remove("job")
    assert (last.state, last.reason) == (State.LOST, "Replaced")
    assert [job["metadata"]["uid"] for job in environment.jobs()] == [new["metadata"]["uid"]]


@_case("removed by its time to live before the first look", "keep_for")
def _(environment: Environment) -> None:
    handle = _start(environment, {**_WORKER, **sh("true"), "keep_for": "1s"})
    until(lambda: not environment.jobs())
    last = _end(handle)
    assert (last.state, last.reason) == (State.LOST, "Deleted")
    assert "by whom is not known" in last.message


def _start(environment: Environment, fields: dict[str, Any]) -> Handle:
    """Create a job, and look at it only when its events are asked for."""
    system = registry.get(environment.system.name, namespace=environment.namespace)
    return system.start(*_job(environment, system, fields))


def plan(environment: Environment, fields: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the job object as it is created, and then its parts."""
    system = registry.get(environment.system.name, namespace=environment.namespace)
    manifests: list[dict[str, Any]] = system.plan(*_job(environment, system, fields))
    return manifests


def _job(
    environment: Environment, system: SystemOf, fields: dict[str, Any]
) -> tuple[TrainingJob, Identity, OutputPaths]:
    job = spec.from_plain({"name": "case", "image": environment.image, **fields}, "test", registry.options())
    identity = Identity(run="run", task="task")
    return job, identity, system.output_paths(job, identity, pathlib.Path())


def _end(handle: Handle) -> JobChanged:
    """Follow a job to its end, which must have come already, and return it."""
    limit = time.time() + 30
    for event in handle.events():
        if isinstance(event, JobChanged) and event.state.terminal:
            return event
        assert event.at < limit, event
    raise AssertionError("the events ended before the job")


@_case("a name used again while the old pods still end")
def _(environment: Environment) -> None:
    slow = sh("trap 'sleep 12; exit 1' TERM; echo old; sleep 600 & wait")
    first = environment.launch({**_WORKER, **slow, "on_end": "keep"}, home="here")
    first.until_said("old")
    old = {pod["metadata"]["uid"] for pod in environment.pods()}
    first.signal(signal.SIGKILL)  # else it would end with its job, and that with its pods
    first.wait()
    environment.delete(environment.job())
    again = environment.launch({**_WORKER, **_UNTIL_RELEASED, "backoff_limit": 0}, home="there")
    again.until(State.RUNNING)
    time.sleep(7)  # as long as a launcher might take the old pods for restarts
    release(environment, again, "worker-0")
    again.ends(0, State.SUCCEEDED)
    assert [line for _, line in again.lines()] == ["up", "end"]
    assert [replica.restarts for replica in again.status.replicas] == [0]
    assert len(again.status.replicas[0].incarnations) == 1
    assert old.isdisjoint(pod["metadata"]["uid"] for pod in environment.pods())


@_case("a job held by a finalizer is waited for", shared=True)
def _(environment: Environment) -> None:
    first = environment.launch({**_WORKER, **_LONG, "on_end": "keep"}, home="here")
    first.until(State.RUNNING)
    first.signal(signal.SIGKILL)
    first.wait()
    job = environment.job()
    name, held_by = job["metadata"]["name"], [*(job["metadata"].get("finalizers") or []), "example.org/held"]
    environment.api.patch(
        environment.system.resource, environment.namespace, name, {"metadata": {"finalizers": held_by}}
    )
    environment.delete(job)
    again = environment.launch({**_WORKER, **_LONG}, home="there")
    time.sleep(5)  # in which it would adopt the old one
    assert again.process.poll() is None, again.text()
    assert not again.started() or not again.status.uid
    now = environment.api.get(environment.system.resource, environment.namespace, name)["metadata"].get(
        "finalizers", []
    )
    rest = [item for item in now if item != "example.org/held"]
    environment.api.patch(environment.system.resource, environment.namespace, name, {"metadata": {"finalizers": rest}})
    again.until(State.RUNNING)
    assert again.status.uid != job["metadata"]["uid"]
    again.signal(signal.SIGTERM)
    again.ends(12, State.CANCELLED)


# --- other containers than the program's


def _containers(environment: Environment, **containers: str) -> dict[str, Any]:
    """Return a pod patch that adds init containers, each of which runs a script."""
    shown = [
        {
            "name": name.replace("_", "-"),
            "image": environment.image,
            "imagePullPolicy": "Never",
            "command": ["sh", "-c", script],
        }
        for name, script in containers.items()
    ]
    return {"pod": {"spec": {"initContainers": shown}}}


@_case("an init container that fails", "pod_patch", shared=True)
def _(environment: Environment) -> None:
    inits = _containers(environment, fetch="echo fetched", init_data="echo no such bucket >&2; sleep 1; exit 3")
    launcher = environment.launch({**_WORKER, **sh("echo never"), **inits, "restart": "never"})
    launcher.ends(10, State.FAILED)
    # of two containers, whose logs are read side by side; a TfJob's own Job may make the pod once more
    assert set(launcher.lines()) == {("worker-0/fetch", "fetched"), ("worker-0/init-data", "no such bucket")}
    assert "container init-data failed with exit code 3" in launcher.failure.summary
    assert (launcher.failure.exit_code, set(launcher.failure.tail)) == (3, {"no such bucket"})


@_case("a sidecar that does not end", "pod_patch")
def _(environment: Environment) -> None:
    side = {
        "name": "proxy",
        "image": environment.image,
        "imagePullPolicy": "Never",
        "restartPolicy": "Always",
        "command": ["sh", "-c", "trap '' TERM; echo proxied; sleep 5 & wait; sleep 600"],
    }
    launcher = environment.launch({**_WORKER, **sh("sleep 2; echo done"), "pod": {"spec": {"initContainers": [side]}}})
    launcher.ends(0, State.SUCCEEDED)
    assert {("worker-0/proxy", "proxied"), ("worker-0", "done")} <= set(launcher.lines())
    assert not [line for _, line in launcher.lines() if "incomplete" in line]


# --- refused, or never to start


@_case("refused by the webhook")
def _(environment: Environment) -> None:
    if environment.system.refused is None:
        return
    fields, words = environment.system.refused
    launcher = environment.launch({**_WORKER, **_LONG, **fields})
    assert launcher.wait() == 2
    assert words in launcher.text()
    assert environment.gone()


@_case("a Secret is missing", "env_sources")
def _(environment: Environment) -> None:
    launcher = environment.launch({**_WORKER, **_LONG, "env": {"TOKEN": {"secret": "hub", "key": "token"}}})
    assert launcher.wait() == 2
    assert f"Secret {environment.namespace}/hub is missing" in launcher.text()
    assert environment.gone()


@_case("a claim is missing", "volumes")
def _(environment: Environment) -> None:
    launcher = environment.launch({**_WORKER, **_LONG, "volumes": [{"pvc": "data", "mount": "/data"}]})
    assert launcher.wait() == 2
    assert f"PersistentVolumeClaim {environment.namespace}/data is missing" in launcher.text()
    assert environment.gone()


@_case("the code comes with the job", "code")
def _(environment: Environment) -> None:
    folder = environment.folder / "program"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "words.py").write_text("TEXT = 'from the folder'\n")
    (folder / "train.py").write_text(
        f"import time\nfrom lib import words\nprint(words.TEXT)\ntime.sleep({_LINGER_SECONDS})\n"
    )
    with store.using(environment.folder / "home"):
        source, _ = code_archive.resolve(CodeSource(), folder)
    job = {**_WORKER, "command": ["python", "train.py"]}
    launcher = environment.launch({**job, "code": {"digest": source.digest}, "on_end": "keep"})
    uid = environment.job()["metadata"]["uid"]
    launcher.ends(0, State.SUCCEEDED)
    assert launcher.lines() == [("worker-0", "from the folder")]
    carried = [
        item
        for item in environment.api.list(CONFIG_MAPS, environment.namespace)["items"]
        if item["metadata"]["name"].startswith("tfsteps-code-")
    ]
    assert [[owner["uid"] for owner in item["metadata"]["ownerReferences"]] for item in carried] == [[uid]]
    assert all(item["immutable"] for item in carried)


@_case("a Secret goes missing before the pods are made", "created_suspended", "pause", "env_sources", shared=True)
def _(environment: Environment) -> None:
    secret = environment.api.create(
        _SECRETS, environment.namespace, {"metadata": {"name": "hub"}, "stringData": {"token": "x"}}
    )
    # long enough for a busy node to try to start the pod
    fields = {"env": {"TOKEN": {"secret": "hub", "key": "token"}}, "deadlines": {"pending": "45s"}}
    launcher = environment.launch({**_WORKER, **_LONG, **environment.system.created_suspended(), **fields})
    launcher.until(State.SUSPENDED)
    environment.api.delete(_SECRETS, environment.namespace, "hub", secret["metadata"]["uid"])
    environment.pause(paused=False)
    launcher.ends(11, State.FAILED, "DeadlineExceeded")
    assert 'CreateContainerConfigError: worker-0: secret "hub" not found' in launcher.failure.summary
    until(environment.gone)


# --- evicted


def _evicted(environment: Environment, **behaviour: Any) -> None:
    launcher = environment.launch({**_WORKER, **standin(HANG=1, PRINT_LINES=1, **behaviour)})
    launcher.until_said("line 0")
    name = until(environment.pods)[0]["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    environment.api.request("POST", PODS.path(environment.namespace, name, "eviction"), {}, eviction)
    launcher.ends(13, State.FAILED)
    assert launcher.failure.fault == "platform"
    assert "memory" not in launcher.failure.summary


_case("evicted")(_evicted)
_case("evicted, and slow to end", shared=True)(functools.partial(_evicted, IGNORE_SIGTERM=1))


# --- not started


@_case("the quota is used up at first")
def _(environment: Environment) -> None:
    environment.api.create(
        _QUOTAS, environment.namespace, {"metadata": {"name": "team"}, "spec": {"hard": {"pods": "1"}}}
    )
    until(lambda: environment.api.get(_QUOTAS, environment.namespace, "team").get("status", {}).get("hard"))
    containers = [{"name": "sleep", "image": environment.image}]
    other = {"metadata": {"name": "other"}, "spec": {"containers": containers, "nodeSelector": {"nowhere": "true"}}}
    uid = environment.api.create(PODS, environment.namespace, other)["metadata"]["uid"]
    launcher = environment.launch({**_WORKER, **sh("echo up")})
    until(lambda: "exceeded quota: team" in launcher.text())
    assert launcher.status.state is State.PENDING
    environment.api.delete(PODS, environment.namespace, "other", uid)
    launcher.ends(0, State.SUCCEEDED)
    assert launcher.lines() == [("worker-0", "up")]


# --- several tasks, attempts, launchers


@_case("two tasks of one run side by side", shared=True)
def _(environment: Environment) -> None:
    stopped = environment.launch({**_WORKER, **_LONG, "on_end": "delete"}, task="stopped")
    sibling = environment.launch({**_WORKER, **_UNTIL_RELEASED}, task="sibling")
    stopped.until(State.RUNNING)
    sibling.until(State.RUNNING)
    stopped.signal(signal.SIGTERM)
    stopped.ends(12, State.CANCELLED)
    assert [job["metadata"]["labels"]["tfsteps.dev/task"] for job in environment.jobs()] == ["sibling"]
    release(environment, sibling, "worker-0")
    sibling.ends(0, State.SUCCEEDED)
    assert sibling.lines() == [("worker-0", "up"), ("worker-0", "end")]
    assert sum(replica.restarts for replica in sibling.status.replicas) == 0


@_case("stopped while a replica ignores it")
def _(environment: Environment) -> None:
    launcher = environment.launch({**_WORKER, **standin(HANG=1, IGNORE_SIGTERM=1, PRINT_LINES=1)})
    launcher.until_said("line 0")
    launcher.signal(signal.SIGINT)
    launcher.ends(12, State.CANCELLED)
    assert environment.pods(leaving=True), "it has not waited for the pod, whose grace period is 30 s"
    assert not environment.jobs()


@_case("the same task retried", "labels", shared=True)
def _(environment: Environment) -> None:
    job = {**_WORKER, **sh("echo attempt $TFSTEPS_ATTEMPT; [ $TFSTEPS_ATTEMPT = 1 ]")}
    first = environment.launch(job)
    first.ends(10, State.FAILED)
    second = environment.launch(job, attempt=1)
    second.ends(0, State.SUCCEEDED)
    assert (first.lines(), second.lines()) == ([("worker-0", "attempt 0")], [("worker-0", "attempt 1")])
    assert {j["metadata"]["name"] for j in environment.jobs()} == {first.status.job, second.status.job}
    assert first.status.job != second.status.job
    until(lambda: [pod["metadata"]["labels"]["tfsteps.dev/attempt"] for pod in environment.pods()] == ["0"])


@_case("two launchers at once for one task", "adopt")
def _(environment: Environment) -> None:
    both = [environment.launch({**_WORKER, **_UNTIL_RELEASED}, home=home) for home in ("here", "there")]
    for launcher in both:
        launcher.until(State.RUNNING)
    release(environment, both[0], "worker-0")
    for launcher in both:
        launcher.ends(0, State.SUCCEEDED)
        assert launcher.lines() == [("worker-0", "up"), ("worker-0", "end")]
    assert len(environment.jobs()) == 1
    assert {launcher.status.uid for launcher in both} == {environment.job()["metadata"]["uid"]}


@_case("another job under the name of this one", shared=True)
def _(environment: Environment) -> None:
    environment.launch({**_WORKER, **sh("echo mine")}, home="here").ends(0, State.SUCCEEDED)
    other = environment.launch({**_WORKER, **sh("echo other")}, home="there")
    assert other.wait() == 2
    assert "was made from another job" in other.text()
    assert len(environment.jobs()) == 1


@_case("names of 200 characters", "labels")
def _(environment: Environment) -> None:
    run, task = "r" * 100 + " ü/" + "r" * 97, "t" * 200
    launcher = environment.launch({**_WORKER, **sh("echo up"), "name": "n" * 63}, run=run, task=task)
    launcher.ends(0, State.SUCCEEDED)
    assert launcher.lines() == [("worker-0", "up")]
    assert all(len(value) <= 63 for value in environment.job()["metadata"]["labels"].values())


# --- much to print

_LINGER_SECONDS = 2.0  # a container runtime may drop what is still in the pipe at the end; on a busy node for long
_LINGER = {"EPOCHS": 1, "STEP_SLEEP": _LINGER_SECONDS}


@_case("a long line and every byte", "live_logs", shared=True)
def _(environment: Environment) -> None:
    launcher = environment.launch({**_WORKER, **standin(PRINT_BYTES=1 << 20, PRINT_BINARY=1, **_LINGER)})
    launcher.ends(0, State.SUCCEEDED)
    lines = [line for _, line in launcher.raw_lines()]
    assert lines[:2] == [b"x" * (1 << 20), bytes(value for value in range(256) if value != ord("\n"))]


@_case("a hundred thousand lines", shared=True)
def _(environment: Environment) -> None:
    count = 100_000
    launcher = environment.launch({**_WORKER, **standin(PRINT_LINES=count, **_LINGER)})
    launcher.ends(0, State.SUCCEEDED)
    lines = [line for _, line in launcher.raw_lines()]
    assert lines[:count] == [b"line %d" % number for number in range(count)]
    assert sum(line.startswith(b"line ") for line in lines) == count


@_case("both outputs at once", shared=True)
def _(environment: Environment) -> None:
    count = 10_000
    printing = f"for i in range({count}): os.write({{}}, b'{{}} %d\\n' % i)\n"
    program = "import os, time\nchild = os.fork()\nif child:\n  " + printing.format(1, "out")
    program += f"  os.wait()\n  time.sleep({_LINGER_SECONDS})\nelse:\n  " + printing.format(2, "err")
    launcher = environment.launch({**_WORKER, "command": ["python", "-c", program]})
    launcher.ends(0, State.SUCCEEDED)
    for output in ("out", "err"):
        lines = [line for _, line in launcher.lines() if line.startswith(output)]
        assert lines == [f"{output} {number}" for number in range(count)]


# --- the operator


@_case("the operator is away when the job is made and when it ends", alone=True)
def _(environment: Environment) -> None:
    with environment.system.away(environment.api) as operator:
        operator.away()
        launcher = environment.launch(
            {**_WORKER, **_UNTIL_RELEASED, "deadlines": {"total": "8m"}}
        )  # some come back slowly
        time.sleep(3)
        assert launcher.process.poll() is None, launcher.text()
        operator.back()
        launcher.until(State.RUNNING)
        operator.away()
        release(environment, launcher, "worker-0")
        until(lambda: [pod["status"]["phase"] for pod in environment.pods()] == ["Succeeded"])
        assert not launcher.status.state.terminal, launcher.text()
    launcher.ends(0, State.SUCCEEDED)
    assert launcher.lines() == [("worker-0", "up"), ("worker-0", "end")]
    assert len(environment.jobs()) == 1
