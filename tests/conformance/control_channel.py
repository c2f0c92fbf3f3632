"""A replica that ends when it is released, not after a time: nobody knows how long others take on a busy machine."""

import contextlib
from collections.abc import Container, Mapping
from typing import Any

from tests.conformance.environment import Environment, Launcher
from tests.support.waiting import until
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import PODS
from tfsteps.runs.events import ReplicaState

_PORT = 8080
_SERVER = f"HTTPServer(('', {_PORT}), server.SimpleHTTPRequestHandler)"
_ANSWER = "etc/hostname"  # plain text: a web page, such as the list of a folder, is never a cluster's answer
WAIT_FOR_RELEASE = f'(cd / && python -c "from http import server; server.{_SERVER}.handle_request()" 2> /dev/null)'
"""Shell command that waits until `release` reaches its replica."""


def release(environment: Environment, launcher: Launcher, name: str) -> None:
    """Let a replica go on that is at `WAIT_FOR_RELEASE`, or will be."""
    pod = until(lambda: _pod(launcher, name))
    path = PODS.path(environment.namespace, f"{pod}:{_PORT}", f"proxy/{_ANSWER}")
    until(
        lambda: _answered(environment, path) or _has_ended(launcher, name)
    )  # its one answer may be lost on a busy machine


def held(job: Mapping[str, Any], name: str, wait: str = WAIT_FOR_RELEASE) -> dict[str, Any]:
    """Return a job, all commands given, in which one replica runs `wait` before it ends as it would have."""
    whole = {**job, "roles": {role: dict(fields) for role, fields in job["roles"].items()}}
    for item in (whole, *whole["roles"].values()):
        if "command" in item:
            script = f'"$@"; code=$?; [ $TFSTEPS_ROLE-$TFSTEPS_INDEX != {name} ] || {wait}; exit $code'
            item["command"] = ["sh", "-c", script, "sh", *item["command"]]
    return whole


def succeeded(launcher: Launcher, names: Container[str]) -> bool:
    """Tell whether the launcher, which still runs, has seen these replicas succeed."""
    assert launcher.process.poll() is None, launcher.text()[-3000:]
    replicas = launcher.status.replicas if launcher.started() else []
    states = [replica.state for replica in replicas if replica.name in names]
    return bool(states) and set(states) == {ReplicaState.SUCCEEDED}


def _pod(launcher: Launcher, name: str) -> str:
    """Return the name of a replica's pod; empty = it is not known yet."""
    replicas = launcher.status.replicas if launcher.started() else []
    places = [replica.incarnations[-1].place for replica in replicas if replica.name == name and replica.incarnations]
    return places[0].partition(" ")[0] if places else ""


def _has_ended(launcher: Launcher, name: str) -> bool:
    states = [replica.state for replica in launcher.status.replicas if replica.name == name]
    return bool({ReplicaState.SUCCEEDED, ReplicaState.FAILED} & set(states))


def _answered(environment: Environment, path: str) -> bool:
    with contextlib.suppress(ApiError), environment.api.open("GET", path) as answer:
        return bool(answer.read())
    return False  # it does not listen yet
