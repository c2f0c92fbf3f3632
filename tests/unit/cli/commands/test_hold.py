"""`tfsteps debug --hold`: what becomes of the job, and what its user is told."""

import itertools
import re
import signal
import subprocess
import time

import pytest

from tests.support.processes import started
from tests.unit.cli.command import COMMAND, refused, tfsteps
from tests.unit.cli.statuses import status
from tfsteps import spec
from tfsteps.backends.backend_location import BackendLocation
from tfsteps.cli.commands import debug
from tfsteps.console.errors import CommandError
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.printer import Printer
from tfsteps.runs.events import ReplicaState
from tfsteps.runs.location import Location
from tfsteps.runs.status import Incarnation, ReplicaStatus
from tfsteps.systems import registry

JOB = """
name: mnist
image: acme/mnist:1
command: [python, train.py]
args: [--data, /my data]
roles: {chief: {}, worker: {replicas: 2, args: [--all]}, evaluator: {command: [sh], args: []}}
deadlines: {queue: 1s, pending: 1s, running: 1s, no_progress: 1s, total: 1h}
tensorboard: {}
"""


def job(text=JOB):
    return spec.parse(text, "job", registry.options())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("all", ["chief", "worker", "evaluator"]),
        ("worker", ["worker"]),
        ("evaluator, chief", ["chief", "evaluator"]),
    ],
)
def test_which_roles_are_meant(text, expected):
    assert debug.chosen(job(), text) == expected


@pytest.mark.parametrize("text", ["ps", "worker,ps", "", "worker,", "all,worker", "worker-0"])
def test_a_role_that_is_not_there_is_named_with_those_that_are(text):
    with pytest.raises(
        CommandError, match=r"the job has no role '.*'; name some of chief, worker, evaluator, or `all`"
    ):
        debug.chosen(job(), text)


@pytest.mark.parametrize(
    ("system", "total", "left"), [("kubeflow", 60.0, "delete"), ("kubeflow", None, None), ("local", 60.0, None)]
)
def test_nothing_is_left_on_a_cluster_of_what_was_held_for_a_time(system, total, left):
    assert debug.held(job(), ["worker"], system, total).on_end == left


def test_held_roles_sleep_and_nothing_but_total_ends_them():
    held = debug.held(job(), ["worker"], "kubeflow")
    assert held.roles.worker.command[:2] == ("sh", "-c")
    assert (held.roles.worker.args, held.roles.worker.replicas) == ((), 2)
    assert (held.roles.chief, held.roles.evaluator) == (job().roles.chief, job().roles.evaluator)
    assert held.deadlines == spec.Deadlines(total=3600.0)
    assert held.tensorboard is None


def test_what_a_role_would_run():
    lines = {name: debug.program(job(), name) for name in ("chief", "worker", "evaluator")}
    assert lines == {"chief": "python train.py --data '/my data'", "worker": "python train.py --all", "evaluator": "sh"}
    assert debug.program(job("{name: a, image: b, roles: {worker: {}}}"), "worker") == ""


def test_the_program_of_a_role_is_shown_without_its_secrets():
    secret = "{name: a, image: b, command: [python, --api-key=k3y, --hub-token, t0ken, --lr, '1'], roles: {worker: {}}}"
    text = debug.program(job(secret), "worker")
    assert text == "python '--api-key=***' --hub-token '***' --lr 1"


# --- what is told


def replica(role, index, state, place="", ended=None):
    incarnations = [Incarnation(started=1.0, ended=ended, place=place)] if place else []
    return ReplicaStatus(role=role, index=index, state=state, incarnations=incarnations)


def printed_of(capsys, place, *steps, system="kubeflow"):
    """Return the lines that are printed for each of some lists of replicas, one after another."""
    programs = {"worker": "python train.py", "evaluator": ""}
    shells = debug.Shells(Printer(), programs, place)
    lines = []
    for replicas in steps:
        shells.changed(status(replicas=replicas, system=system, namespace="ml"))
        lines.append(capsys.readouterr().out.splitlines())
    return lines


def test_on_a_cluster_each_container_once_it_runs(capsys):
    pending, running = ReplicaState.PENDING, ReplicaState.RUNNING
    first = replica("worker", 0, running, "j-worker-0 on node1")
    chief, last = replica("chief", 0, running, "j-chief-0 on node1"), replica("evaluator", 0, pending, "j-evaluator-0")
    up = replica("evaluator", 0, running, "j-evaluator-0 on node1")
    lines = printed_of(
        capsys,
        BackendLocation(Location.KUBERNETES, "minikube"),
        [chief, first, last],
        [chief, first, up],
        [chief, first, up],
    )
    exec_in = "kubectl --context minikube --namespace ml exec -it"
    assert lines == [
        [f"worker-0 is held; a shell beside it:  {exec_in} j-worker-0 -c tensorflow -- sh"],
        [
            f"evaluator-0 is held; a shell beside it:  {exec_in} j-evaluator-0 -c tensorflow -- sh",
            "worker: its program is  python train.py",
            "evaluator: its program is  what its image starts",
            "all that is held is up; Ctrl-C ends the job",
        ],
        [],
    ]


def test_a_recreated_pod_is_printed_again(capsys):
    running = ReplicaState.RUNNING
    location = BackendLocation(Location.KUBERNETES)
    first, second = ([replica("worker", 0, running, f"j-worker-0-{i} on node1")] for i in range(2))
    gone = [replica("worker", 0, ReplicaState.FAILED, "j-worker-0-0 on node1", ended=2.0)]
    lines = printed_of(capsys, location, first, gone, second)
    assert (len(lines[0]), lines[1]) == (4, [])
    assert lines[2] == [
        "worker-0 is held; a shell beside it:  kubectl --namespace ml exec -it j-worker-0-1 -c tensorflow -- sh"
    ]


@pytest.mark.shows("hold", "hai")
def test_elsewhere_the_place_is_all_that_is_known(capsys):
    held = [replica("worker", 0, ReplicaState.RUNNING, "rank 0 on hfai-1")]
    assert (
        printed_of(capsys, BackendLocation(), held, system="hai")[0][0]
        == "worker-0 is held; a shell beside it:  rank 0 on hfai-1"
    )


# --- the whole of it, on this machine


@pytest.mark.shows("hold", "local")
def test_a_local_job_is_held_until_ctrl_c_and_its_shell_has_its_variables(tmp_path, monkeypatch):
    monkeypatch.setenv("SHELL", "/bin/sh")
    (tmp_path / "job.yaml").write_text(JOB.replace("image: acme/mnist:1", "output_dir: out"))
    command = [COMMAND, "debug", "--hold", "all", "job.yaml"]
    with started(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        lines = list(itertools.takewhile(lambda line: "all that is held is up" not in line, process.stdout))
        shell = next(line.partition(":  ")[2] for line in lines if line.startswith("worker-1 is held"))
        assert shell.startswith("tfsteps shell ")
        typed = 'echo "$TF_CONFIG"; pwd; exit\n'
        command = ["sh", "-c", shell.replace("tfsteps", COMMAND, 1)]
        output = subprocess.run(command, input=typed, capture_output=True, text=True, check=True).stdout
        assert re.search(r'"task": {"type": "worker", "index": 1}', output)
        assert str(tmp_path) in output.splitlines(), output
        time.sleep(2.0)  # longer than the deadlines that do not hold
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert process.returncode == ExitCode.CANCELLED
    assert re.fullmatch(r"mnist cancelled after .*: Stopped: Ctrl-C\.", rest.splitlines()[-1]), rest


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--hold", "all", "--task", "t"], "--task and --from choose a run, and this is a job file"),
        (["--hold", "all", "--attempt", "0"], "--attempt and --all-namespaces choose a run, --hold makes one"),
        (["--system", "kubeflow"], "--system kubeflow says where to launch a job; add --hold"),
        (["--hold", "all", "--system", "nix"], "job system 'nix' is unknown"),
        (["--hold", "ps"], "--hold ps: the job has no role 'ps'"),
        (["--hold", "all", "--namespace", "x"], "add --on kubernetes"),
    ],
)
def test_options_that_make_no_sense(options, says, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    assert says in refused("debug", str(file), *options)


def test_a_system_with_a_debug_mode_of_its_own_holds_by_that():
    held = debug.held(job(), ["worker"], "t9k")
    assert held.roles == job().roles
    options = held.systems["t9k"]
    assert options["debug"] is True
    assert options["debug_commands"].keys() == {"worker"}
    assert registry.get("t9k").spec_problems(held) == []


def test_the_job_of_a_run_is_held_as_that_of_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path / "home"))
    (tmp_path / "job.yaml").write_text("name: small\ncommand: ['true']\nroles: {worker: {}}\n")
    assert tfsteps("run", tmp_path / "job.yaml", "--run-id", "first")[0] == 0
    assert refused("debug", "first", "--hold", "ps").startswith("error: --hold ps: the job has no role 'ps'")
    assert "run 'other' is unknown" in refused("debug", "other", "--hold", "all")
