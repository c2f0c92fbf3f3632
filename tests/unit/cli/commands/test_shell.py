"""`tfsteps shell`: where it opens, with what, and what it refuses."""

import os
import pty
import shlex
import subprocess
import threading
import types

import msgspec
import pytest

from tests.support.waiting import LONGEST
from tests.unit.cli.command import COMMAND, refused, tfsteps
from tests.unit.cli.jobs_on_cluster import kubeconfig, pod_of, tfjob
from tests.unit.cli.statuses import saved, status
from tfsteps import spec
from tfsteps.backends.local import backend as local_shell
from tfsteps.console.errors import CommandError
from tfsteps.platforms.hai.backend import HaiBackend
from tfsteps.platforms.hai.runs import HaiRun, TaskPlan
from tfsteps.runs.events import ReplicaState, State
from tfsteps.runs.status import Incarnation, ReplicaStatus

K = ("--on", "kubernetes")
BUSY = tfjob("busy", ("Running", "True", 3))
PODS = [
    pod_of(BUSY, "chief-0", "Running"),
    pod_of(BUSY, "worker-0", "Failed", 1, ended=19),
    pod_of(BUSY, "worker-1", "Running"),
]


def shell(*args, **options):
    """Run the program: the command takes its place."""
    command = [COMMAND, "shell", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def local(**more):
    """Save a local run of a chief and two workers, and its job."""
    roles = [("chief", 0), ("worker", 0), ("worker", 1)]
    replicas = [
        ReplicaStatus(role=role, index=index, state=ReplicaState.SUCCEEDED, incarnations=[ran(4000 + place)])
        for place, (role, index) in enumerate(roles)
    ]
    base = {"system": "local", "decisive_replica": "chief-0", "replicas": replicas, "state": State.SUCCEEDED}
    attempt = saved(**{**base, **more})
    job = "{name: mnist, command: [python, t.py], env: {A: '1'}, roles: {chief: {}, worker: {replicas: 2}}}"
    (attempt.folder / "job.json").write_bytes(msgspec.json.encode(spec.parse(job)))
    return attempt


def ran(port, pid=1):
    return Incarnation(started=1.0, ended=2.0, place=f"pid {pid} port {port}")


# --- this machine


def test_an_ended_replica_has_its_folder_and_environment_with_the_ports_that_it_had(tmp_path):
    local(base_dir=str(tmp_path), output="/out", model="/out/model", logs="/out/logs")
    done = shell("r1", "worker-1", "--", "sh", "-c", 'echo "$TF_CONFIG $A $TFSTEPS_MODEL_DIR $(pwd)"; exit 7')
    assert done.returncode == 7
    cluster = '{"chief": ["127.0.0.1:4000"], "worker": ["127.0.0.1:4001", "127.0.0.1:4002"]}'
    task = '{"type": "worker", "index": 1}'
    config = f'{{"cluster": {cluster}, "task": {task}, "environment": "cloud"}}'
    assert done.stdout == f"{config} 1 /out/model {tmp_path}\n"
    assert done.stderr == f"worker-1 is succeeded; this is the environment it would start with, in {tmp_path}\n"


def test_a_running_replica_has_the_environment_and_folder_of_its_process(tmp_path):
    with subprocess.Popen(["sleep", "600"], env={"LR": "a=b", "PATH": os.environ["PATH"]}, cwd=tmp_path) as program:
        try:
            running = ReplicaStatus(
                role="chief", index=0, state=ReplicaState.RUNNING, incarnations=[ran(1, pid=program.pid)]
            )
            _, lock = saved(hold=True, system="local", decisive_replica="chief-0", replicas=[running])
            with lock:
                done = shell("r1", "--", "sh", "-c", "echo $LR $HOME; pwd; kill -9 $$")
        finally:
            program.kill()
    assert (done.returncode, done.stdout, done.stderr) == (-9, f"a=b\n{tmp_path}\n", "")


def test_a_replica_whose_start_is_recorded_a_moment_later_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(local_shell, "_MOMENT_SECONDS", LONGEST)
    pending = ReplicaStatus(role="chief", index=0)
    attempt, lock = saved(hold=True, system="local", decisive_replica="chief-0", replicas=[pending])
    up = msgspec.structs.replace(pending, state=ReplicaState.RUNNING, incarnations=[ran(1, pid=4711)])
    job = types.SimpleNamespace(attempt=attempt)
    with lock:
        later = threading.Timer(0.3, attempt.write, [msgspec.structs.replace(attempt.status(), replicas=[up])])
        later.start()
        assert local_shell._recorded_start(job, pending).incarnations == up.incarnations
        later.join()
        monkeypatch.setattr(local_shell, "_MOMENT_SECONDS", 0.0)
        assert local_shell._recorded_start(job, pending) == pending, "it is not waited for for ever"


def test_the_variables_of_a_process_that_is_just_executing_its_program_are_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(local_shell, "_MOMENT_SECONDS", LONGEST)
    file = tmp_path / "environ"
    file.touch()
    later = threading.Timer(0.3, file.write_bytes, [b"A=1\0"])
    later.start()
    assert local_shell._environ(file) == b"A=1\0"
    later.join()


def test_the_command_is_the_users_shell_if_none_is_given(tmp_path):
    local(base_dir=str(tmp_path))
    done = shell("r1", input="echo $TFSTEPS_ROLE", env={**os.environ, "SHELL": "/bin/sh"})
    assert (done.returncode, done.stdout) == (0, "chief\n")


def test_the_command_has_the_usual_signals():
    """Python ignores SIGPIPE, which a program would inherit."""
    local()
    done = shell("r1", "--", "sh", "-c", "grep SigIgn /proc/$$/status")
    assert int(done.stdout.split()[1], 16) & 1 << 12 == 0


@pytest.mark.parametrize(
    ("args", "answer"),
    [
        (("r1", "worker-7"), "run r1: replica 'worker-7' is unknown; it has chief-0, worker-0, worker-1"),
        (("r1", "worker"), "run r1: replica 'worker' is ambiguous; choose one of worker-0, worker-1"),
        (("r1", "--", "no-such-program"), "'no-such-program' cannot be started: No such file or directory"),
        (("r2",), "run r2 has several tasks: a, b; choose one with --task"),
        (("r3",), "run r3: its replicas are not on this machine, but on jobset; use `tfsteps shell r3 --on kubernetes"),
    ],
)
def test_what_cannot_be_opened_is_refused(args, answer):
    local()
    for task in ("a", "b"):
        saved(run="r2", task=task, state=State.SUCCEEDED)
    saved(run="r3", system="jobset", namespace="ml", state=State.SUCCEEDED)
    done = shell(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith(f"error: {answer}")


# --- a cluster


@pytest.fixture
def kubectl(monkeypatch, tmp_path):
    """Make `kubectl` print its arguments and its input, and end with 5."""
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@"\ntest -t 0 || cat\nexit 5\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


@pytest.fixture
def cluster(monkeypatch, tmp_path):
    with kubeconfig(monkeypatch, tmp_path, BUSY, *PODS):
        yield


@pytest.mark.usefixtures("cluster", "kubectl")
def test_on_a_cluster_kubectl_takes_over_with_input_and_exit_code():
    done = shell("busy", "worker-1", *K, "--context", "test", "--", "nvidia-smi", "-L", input="typed\n")
    pod = PODS[2]["metadata"]["name"]
    words = f"--context test --namespace ml exec -i {pod} -c tensorflow -- nvidia-smi -L"
    assert (done.returncode, done.stdout, done.stderr) == (5, f"{words}\ntyped\n", "")
    assert f"exec -i {PODS[0]['metadata']['name']} -c tensorflow -- sh\n" in shell("busy", *K, input="").stdout


@pytest.mark.usefixtures("kubectl")
def test_a_shell_starts_in_the_folder_of_shipped_code(monkeypatch, tmp_path):
    env = [{"name": "TFSTEPS_CODE_DIR", "value": "/tmp/tfsteps-code"}]
    pods = [{**pod, "spec": {"containers": [{"name": "tensorflow", "env": env}]}} for pod in PODS]
    with kubeconfig(monkeypatch, tmp_path, BUSY, *pods):
        enter = """sh -c cd -P /proc/1/cwd; exec "${@:-sh}\""""
        assert shell("busy", *K, input="").stdout.strip().endswith(f"-c tensorflow -- {enter}")
        assert shell("busy", *K, "--", "ls", "-l", input="").stdout.strip().endswith(f"{enter} sh ls -l")


@pytest.mark.usefixtures("cluster", "kubectl")
def test_on_a_terminal_kubectl_is_asked_for_one():
    controller, terminal = pty.openpty()
    with os.fdopen(controller, "rb", buffering=0) as screen, os.fdopen(terminal, "rb", buffering=0) as terminal_input:
        command = [COMMAND, "shell", "busy", "chief", *K]
        assert subprocess.run(command, stdin=terminal_input, stdout=terminal_input, check=False).returncode == 5
        assert b" exec -it " in screen.read(4096)


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("args", "answer"),
    [
        (("worker-0",), "run busy: worker-0 of mnist is failed; running: chief-0, worker-1"),
        (("ps-0",), "run busy: replica 'ps-0' is unknown; it has chief-0, worker-0, worker-1"),
        (("chief-0/proxy",), "chief-0 has no running container 'proxy' beside its program; there is none"),
    ],
)
def test_on_a_cluster_only_running_containers_are_opened(args, answer):
    assert refused("shell", "busy", *args, *K).startswith(f"error: {answer}")


@pytest.mark.usefixtures("cluster")
def test_without_kubectl_the_command_is_printed(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    line = shlex.join(["kubectl", "--namespace", "ml", "exec", "-i", PODS[0]["metadata"]["name"], "-c", "tensorflow"])
    assert refused("shell", "busy", *K, "--", "echo", "a b").endswith(f" or: {line} -- echo 'a b'\n")


def test_on_hai_it_is_refused_with_what_to_do():
    job = HaiRun({}, TaskPlan([], {}), status(run="r1"))
    with pytest.raises(
        CommandError, match="HAI has no request that starts a command in a replica; print what you need"
    ):
        HaiBackend(None).shell(job, None, [])


def test_the_help_names_the_command():
    code, out, _ = tfsteps("shell", "--help")
    assert code == 0
    assert "[-- COMMAND...]" in out
