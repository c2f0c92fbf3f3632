"""Agents and coordinator as processes, with the platform's environment and no platform."""

import json
import os
import pathlib
import shlex
import socket
import subprocess
import sys
import time

import pytest

from tests.hai.platform import free_port
from tfsteps import spec
from tfsteps.identity import Identity
from tfsteps.systems.hai import schema
from tfsteps.systems.hai.options import OPTIONS
from tfsteps.systems.hai.ranks.wire import MARK
from tfsteps.systems.places import Places

_TASK = {"CHAIN_ID": "chain", "MARSV2_TASK_ID": "7"}


@pytest.fixture
def start():
    """Return a function that starts all ranks of a job, and gives their processes."""
    started = []

    def start(ranks=None, **fields):
        options = {"grace": "1s", "finish": "1s", "watchdog_time": "3s"}
        plain = {"name": "case", **fields, "systems": {"hai": options}}
        job = spec.from_plain(plain, "test", {"hai": OPTIONS})
        places = Places(output="out", model="model", logs="logs", here=pathlib.Path())
        body = schema.render(job, Identity(run="run", task="task"), places, "")
        own = {name: shlex.split(value)[0] for name, value in body["spec"]["environments"].items()}
        command = [sys.executable, *shlex.split(body["spec"]["parameters"])]
        port = str(free_port())
        env = {"PATH": os.environ["PATH"], "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **_TASK, **own}
        started.extend(
            subprocess.Popen(
                command, env={**env, "RANK": str(rank)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            for rank in (ranks or range(body["resource"]["node_count"]))
        )
        return started, int(port)

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def ends(processes):
    """Return the exit codes of all ranks and what they printed for the launcher."""
    said = [process.communicate(timeout=60)[0] for process in processes]
    told = [[json.loads(line.partition(MARK)[2]) for line in text.splitlines() if MARK in line] for text in said]
    return [process.returncode for process in processes], said, told


def until_said(process, event, times=1):
    """Read what a rank tells the launcher until it has told of an event so many times; return all that it told."""
    told = []
    while [each["event"] for each in told].count(event) < times:
        line = process.stdout.readline()
        assert line, f"it ended, and told {told}"
        told += [json.loads(line.partition(MARK)[2])] if MARK in line else []
    return told


def test_every_rank_gets_the_same_cluster_and_a_place_of_its_own(start):
    roles = {"chief": {}, "worker": {"replicas": 2}, "ps": {}, "evaluator": {}}
    done = {"success": "all_workers", "command": ["sh", "-c", "sleep 1; echo $TF_CONFIG"]}
    codes, said, _ = ends(start(roles=roles, **done)[0])
    assert codes == [0] * 5
    configs = [json.loads(next(line for line in text.splitlines() if line.startswith("{"))) for text in said[:3]]
    assert len({json.dumps(config["cluster"]) for config in configs}) == 1
    assert {role: len(hosts) for role, hosts in configs[0]["cluster"].items()} == {"chief": 1, "worker": 2, "ps": 1}
    ports = [host for hosts in configs[0]["cluster"].values() for host in hosts]
    assert len(set(ports)) == 4
    tasks = [config["task"] for config in configs]
    assert tasks == [{"type": "chief", "index": 0}, {"type": "worker", "index": 0}, {"type": "worker", "index": 1}]


def test_ranks_of_another_run_are_not_let_in(start):
    processes, port = start(ranks=[0], roles={"worker": {"replicas": 2}}, command=["true"])
    until_said(processes[0], "begun")
    time.sleep(1)  # in which it joins itself
    with socket.create_connection(("127.0.0.1", port), 60) as other:
        other.sendall(b'{"rank": 1, "task": ["chain", "6"], "address": "10.0.0.1:1"}\n')
        other.settimeout(1)
        with pytest.raises(TimeoutError):  # it is not told to start
            other.recv(100)
        other.settimeout(60)
        other.sendall(b"[1]\n")
        assert other.recv(100) == b""
    with socket.create_connection(("127.0.0.1", port), 60) as scanner:
        scanner.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert scanner.recv(100) == b""
    assert processes[0].poll() is None


def test_a_rank_that_fails_ends_with_its_code_and_rank_0_says_whose_it_was(start):
    script = "[ $TFSTEPS_INDEX = 1 ] && exit 9; exec sleep 60"
    processes, _ = start(roles={"worker": {"replicas": 2}}, command=["sh", "-c", script])
    assert processes[1].wait(60) == 9
    first = until_said(processes[0], "stopped")  # its program would hold the pipe
    processes[0].kill()  # as the platform does
    (failed,) = [each for each in first if each["event"] == "failed"]
    assert (failed["replica"], failed["reason"]) == ("worker-1", "ReplicaFailed")
    _, _, (second,) = ends(processes[1:])
    assert [each["event"] for each in second] == ["begun", "started", "ended"]


def test_a_program_that_is_not_there_is_said_to_be_missing(start):
    codes, said, _ = ends(start(roles={"worker": {}}, command=["no-such-program"])[0])
    assert codes == [127]
    assert "no-such-program could not be started" in said[0]


def test_ranks_end_when_rank_0_is_gone(start):
    processes, _ = start(roles={"worker": {"replicas": 2}}, command=["sleep", "60"])
    until_said(processes[1], "started")
    processes[0].kill()
    assert processes[1].wait(60) == 143


def test_parameter_servers_show_life_before_the_watchdog_takes_them_for_hung(start, tmp_path):
    script = f"[ $TFSTEPS_ROLE = ps ] && exec sleep 60; until [ -e {tmp_path}/end ]; do sleep 0.1; done"
    roles = {"chief": {}, "worker": {}, "ps": {}}
    processes, _ = start(roles=roles, command=["sh", "-c", script])
    until_said(processes[2], "alive", times=2)
    (tmp_path / "end").touch()
    _, _, told = ends(processes)
    assert not [each for words in told[:2] for each in words if each["event"] == "alive"]
