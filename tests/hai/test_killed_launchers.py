"""A run whose launcher was killed goes on on HAI: the commands find it there, from any machine, and one adopts it."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from tests.conformance.verdicts import sh
from tests.hai import pods
from tests.hai.environment import HaiEnvironment
from tests.support.waiting import until

pytestmark = [pytest.mark.skipif(not pods.may_isolate(), reason="ranks need namespaces, which root may make")]

_ROOT = pathlib.Path(__file__).parents[2]
_TFSTEPS = pathlib.Path(sys.executable).parent / "tfsteps"


class Commands:
    """The `tfsteps` command with a platform, and the folder of one machine or of another."""

    def __init__(self, environment):
        self.environment = environment
        self.file = environment.folder / "job.json"
        self._started = []

    def write(self, **fields):
        options = {"workspace": str(_ROOT / "tests/programs"), "finish": "1s", "grace": "2s"}
        output = str(self.environment.folder / "out/{run_id}/{task}")
        job = {
            "name": "case",
            "deadlines": {"total": "3m"},
            "output_dir": output,
            "systems": {"hai": options},
            **fields,
        }
        self.file.write_text(json.dumps(job))

    def start(self, *args, home="here"):
        with (self.environment.folder / f"said-{len(self._started)}").open("wb") as output:
            process = subprocess.Popen(
                [_TFSTEPS, *args], env=self._env(home), stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self._started.append(process)
        return process

    def run(self, *args, home="here"):
        """Return exit code, standard output and standard error."""
        done = subprocess.run(
            [_TFSTEPS, *args], env=self._env(home), capture_output=True, text=True, timeout=180, check=False
        )
        return done.returncode, done.stdout, done.stderr

    def end(self):
        for process in self._started:
            process.kill()
            process.wait()

    def _env(self, home):
        return {**os.environ, **self.environment.env, "TFSTEPS_HOME": str(self.environment.folder / home)}


@pytest.fixture
def commands(tmp_path):
    with HaiEnvironment(tmp_path) as environment:
        commands = Commands(environment)
        yield commands
        commands.end()


@pytest.fixture
def left(commands):
    """A run `r1` of two workers, whose launcher was killed once both had printed `up`."""
    commands.write(
        roles={"worker": {"replicas": 2}},
        **sh("echo up $RANK; until [ -e $TFSTEPS_OUTPUT_DIR/end ]; do sleep 0.1; done; echo done"),
    )
    launcher = commands.start("run", str(commands.file), "--system", "hai", "--run-id", "r1")
    logged = commands.environment.folder / "here/runs/r1/case/0/log"
    until(lambda: logged.exists() and logged.read_bytes().count(b"up") == 2)
    launcher.send_signal(signal.SIGKILL)
    launcher.wait()
    return commands


def end_program(commands):
    folder = commands.environment.folder / "out/r1/case"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "end").touch()


def test_the_machine_that_launched_a_task_finds_it_on_hai_without_an_option(left):
    code, out, _ = left.run("show", "r1")
    assert code == 0
    assert "running" in out
    assert "lost" not in out
    code, out, _ = left.run("logs", "r1")
    assert (code, sorted(out.splitlines())) == (0, ["[worker-0] up 0", "[worker-1] up 1"])
    code, out, _ = left.run("logs", "r1", "--grep", "UP 1", "-i", "--since", "1h", "--tail", "1")
    assert (code, out) == (0, "[worker-1] up 1\n")
    code, _, err = left.run("logs", "r1", "worker-2")
    assert (code, err) == (2, "error: run r1: replica 'worker-2' is unknown; it has worker-0, worker-1\n")
    code, _, err = left.run("shell", "r1", "--", "true")
    assert (code, err[:44]) == (2, "error: run r1: HAI has no request that start")
    code, out, _ = left.run("stop", "r1")
    assert code == 0
    assert "already ended" not in out
    assert "cancelled" in out
    until(left.environment.gone)
    code, out, _ = left.run("stop", "r1", "--on", "hai")
    assert code == 0
    assert "already ended" in out


def test_another_machine_with_the_token_finds_it_too(left):
    there = ("--on", "hai")
    _, out, _ = left.run("runs", *there, "--output", "json", home="elsewhere")
    (run,) = json.loads(out)
    assert (run["run"], run["task"], run["system"], run["state"]) == ("r1", "case", "hai", "running")
    for number, options in ((1, ("--state", "running")), (0, ("--state", "failed")), (0, ("--task", "no"))):
        _, out, _ = left.run("runs", *there, *options, "--output", "json", home="elsewhere")
        assert len(json.loads(out)) == number
    _, out, _ = left.run("show", "r1", *there, "--output", "json", home="elsewhere")
    (attempt,) = json.loads(out)["attempts"]
    assert [(replica["state"], replica["index"]) for replica in attempt["replicas"]] == [("running", 0), ("running", 1)]
    code, out, _ = left.run("debug", "latest", *there, home="elsewhere")
    assert code == 0
    assert "tasks of the chain" in out
    code, _, err = left.run("show", "r2", *there, home="elsewhere")
    assert code == 2
    assert "run 'r2' is unknown; newest: r1" in err


def test_followed_from_another_machine_to_its_end(left):
    logs = left.start("logs", "r1", "--on", "hai", "--follow", "worker-1", home="elsewhere")
    show = left.start("show", "r1", "--on", "hai", "--follow", home="elsewhere")
    end_program(left)
    assert logs.wait(180) == show.wait(180) == 0
    logged, shown = [(left.environment.folder / f"said-{n}").read_text() for n in (1, 2)]
    assert logged.splitlines() == ["[worker-1] up 1", "[worker-1] done"]
    assert "succeeded" in shown.splitlines()[-1]


def test_a_running_run_is_refused_and_adopted_with_the_option(left):
    again = ("run", str(left.file), "--system", "hai", "--run-id", "r1")
    for home in ("here", "elsewhere"):
        code, _, err = left.run(*again, home=home)
        assert code == 2
        assert "task case has a job already, which is " in err
        assert "; `tfsteps stop r1 --task case --on hai` stops it" in err
        assert "--adopt goes on with it" in err
    assert len(left.environment.tasks()) == 1
    adopted = left.start(*again, "--adopt", home="elsewhere")
    log = left.environment.folder / "elsewhere/runs/r1/case/0/log"
    until(lambda: log.exists() and log.read_bytes().count(b"up") == 2)
    end_program(left)
    assert adopted.wait(180) == 0
    assert len(left.environment.tasks()) == 1
    code, out, _ = left.run("show", "r1", home="elsewhere")
    assert code == 0
    assert "succeeded" in out


@pytest.mark.parametrize("stopped", [False, True], ids=["succeeded", "stopped"])
def test_an_end_that_no_launcher_reported_is_reported_by_adoption(left, stopped):
    again = ("run", str(left.file), "--system", "hai", "--run-id", "r1", "--adopt")
    if stopped:
        assert left.run("stop", "r1", "--on", "hai", home="elsewhere")[0] == 0
    else:
        end_program(left)
    until(left.environment.gone)
    code, out, err = left.run(*again)
    assert (code, len(left.environment.tasks())) == (12 if stopped else 0, 1), err
    assert ("cancelled" if stopped else "succeeded") in out
    if not stopped:
        assert left.run(*again)[0] == 0
        assert len(left.environment.tasks()) == 2, "its end was reported: another attempt"


def test_the_list_of_this_machine_s_runs_shows_what_hai_knows(left):
    def states():
        _, out, err = left.run("runs", "--output", "json")
        return [run["state"] for run in json.loads(out)], err

    assert states() == (["running"], "")
    left.environment.server.away = True
    (state,), err = states()
    assert (state, "the states of 1 jobs on HAI are not known" in err) == ("unknown", True)
    left.environment.server.away = False
    end_program(left)
    until(left.environment.gone)
    assert states() == (["succeeded"], "")
    assert left.run("runs", "--output", "json", "--state", "lost")[1].strip() == "[]"


def test_paused_and_resumed_from_another_machine(left):
    code, out, _ = left.run("pause", "r1", "--on", "hai", home="elsewhere")
    assert (code, "paused" in out) == (0, True)
    _, out, _ = left.run("runs", "--on", "hai", "--output", "json", home="elsewhere")
    assert json.loads(out)[0]["state"] == "suspended"
    code, out, _ = left.run("resume", "r1", "--on", "hai", home="elsewhere")
    assert (code, "resumed" in out) == (0, True)
    until(lambda: len(left.environment.tasks()) == 2 and left.environment.pods() == 2)
    code, _, _ = left.run("stop", "r1", "--on", "hai", home="elsewhere")
    assert code == 0
    until(left.environment.gone)


def test_a_failure_is_explained_from_another_machine(commands):
    commands.write(
        roles={"worker": {"replicas": 2}},
        **sh("echo up; sleep 1; [ $RANK = 0 ] && exec sleep 600; echo broken >&2; exit 7"),
    )
    launcher = commands.start("run", str(commands.file), "--system", "hai", "--run-id", "r1")
    assert launcher.wait(180) == 10
    code, out, _ = commands.run("show", "r1", "--on", "hai", "--output", "json", home="elsewhere")
    (attempt,) = json.loads(out)["attempts"]
    assert (code, attempt["state"]) == (0, "failed")
    assert (attempt["failure"]["replica"], attempt["failure"]["exit_code"]) == ("worker-1", 7)
    assert "broken" in attempt["failure"]["tail"]
