"""The program that runs the suites side by side, on suites of a few lines."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

from tests.side_by_side import reruns, suites
from tests.support.jobs import alive
from tests.support.processes import started
from tests.support.waiting import read_until, until

TESTS = pathlib.Path(__file__).parents[2]
MEET = """
import pathlib, time
def test_meet():
    here = pathlib.Path(__file__).parents[1]
    (here / "met-{name}").touch()
    limit = time.monotonic() + 60
    while not ((here / "met-a").exists() and (here / "met-b").exists()):
        assert time.monotonic() < limit
        time.sleep(0.05)
"""
ALONE = """
import pathlib, pytest
LOG = pathlib.Path(__file__).parents[1] / "log"
@pytest.MARK.alone
def test_alone():
    assert LOG.read_text().split() == ["one", "two"]
def test_other():
    with LOG.open("a") as file: file.write("{name}\\n")
"""
HANG = """
import pathlib, os, pytest, time
HERE = pathlib.Path(__file__).parents[1]
@pytest.fixture
def made():
    yield
    (HERE / "removed-{name}").touch()
def test_hang(made):
    (HERE / "pid-{name}").write_text(str(os.getpid()))
    time.sleep(600)
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Return how to run the program on suites: a copy of it, since its results lie beside the folder of the tests."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # starts faster
    tests = tmp_path / "tests"
    tests.mkdir()
    shutil.copytree(TESTS / "side_by_side", tests / "side_by_side")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\naddopts = ["--import-mode=importlib"]\n'
        'markers = ["alone", "cluster", "disruptive", "tensorflow"]\n'
        'filterwarnings = ["error"]\n'
    )

    def command(suites, *arguments):
        for name, text in suites.items():
            (tests / name).mkdir()
            (tests / name / f"test_{name}.py").write_text(text.replace("{name}", name))
        return [sys.executable, "-m", "tests.side_by_side", *arguments]

    return command


def run(command):
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=150)


def test_suites_run_at_once(program, tmp_path):
    ran = run(program({"a": MEET, "b": MEET}, "--cores", "1"))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    durations = json.loads((tmp_path / "build/side_by_side/durations.json").read_text())
    for part in ("suites", "tests"):
        assert sorted(row["suite"] for row in durations[part]) == ["a", "b"]
    assert all(row["cpu"] > 0 for row in durations["suites"])
    assert "CI times by suite" in ran.stdout


def test_no_more_run_at_once_than_fit(program):
    ran = run(program({"a": MEET.replace("+ 60", "+ 1"), "b": MEET}, "--cores", "0.5"))
    assert flaky(ran) == ["tests/a/test_a.py::test_meet"], ran.stdout
    assert "a FAILED, exit code 1," in ran.stdout
    assert "b passed" in ran.stdout


def test_short_tests_that_wait_for_nothing_use_what_the_others_leave(program):
    meet = MEET.replace("met-b", "met-unit")
    low = f"import os\ndef test_priority(): assert os.nice(0) > {os.nice(0)}"
    ran = run(program({"a": meet, "unit": f"{meet}\n{low}"}, "--cores", "0.5"))
    assert ran.returncode == 0, ran.stdout


def test_those_that_want_to_be_alone_come_last(program):
    ran = run(program(dict.fromkeys(("one", "two"), ALONE.replace("MARK", "mark")), "--cores", "0.5"))
    assert ran.returncode == 0, ran.stdout
    ended = [line.split()[2] for line in ran.stdout.splitlines() if " after " in line]
    assert ended == ["one", "two", "one-alone", "two-alone"]


DISRUPTIVE = """
import pathlib, pytest, time
HERE = pathlib.Path(__file__).parents[1]
def wait_for(name):
    limit = time.monotonic() + 60
    while not (HERE / name).exists():
        assert time.monotonic() < limit
        time.sleep(0.05)
@pytest.MARK.disruptive
def test_disruptive():
    assert (HERE / "ended-a").exists() and (HERE / "ended-b").exists()
    (HERE / "disruptive").touch()
def test_other():
    time.sleep(0.5)
    (HERE / "ended-{name}").touch()
"""
BESIDE = DISRUPTIVE.partition("@pytest.MARK")[0] + "def test_beside(): wait_for('disruptive')"


def test_disruptive_ones_wait_for_those_of_the_cluster_and_not_for_others(program):
    one, other = (DISRUPTIVE.replace("MARK.disruptive", f"mark.{mark}") for mark in ("disruptive", "alone"))
    suites = {"a": one, "b": other, "unit": BESIDE}
    ran = run(program(suites, "--cores", "4"))
    assert ran.returncode == 0, ran.stdout


def test_those_of_tensorflow_are_a_suite_of_their_own(program, tmp_path):
    local = (
        "import pytest\n@pytest.mark.tensorflow\ndef test_real(): pass\n"
        "@pytest.fixture\ndef made(): pass\ndef test_other(made): pass"
    )
    ran = run(program({"local": local, "b": "def test_b(): pass"}, "--suite", "local"))
    assert ran.returncode == 0, ran.stdout
    durations = json.loads((tmp_path / "build/side_by_side/durations.json").read_text())
    tests = {row["suite"]: row["test"].rpartition("::")[2] for row in durations["tests"]}
    assert tests == {"local": "test_other", "local-tensorflow": "test_real"}


def names(folder, *, cluster):
    together, alone = suites.suites(folder, {}, cluster=cluster, arguments=[])
    return {suite.name for suite in (*together, *alone)}


def test_suites_that_need_a_cluster_are_left_out_without_one(tmp_path):
    one = "@pytest.mark.cluster\ndef test_one(): pass\n"
    for file, text in {
        "argo/test_a.py": "pytestmark = pytest.mark.cluster\n",
        "conformance/test_a.py": one,
        "conformance/test_b.py": "pytestmark = [pytest.mark.cluster, pytest.mark.tensorflow]\n",
        "operate/test_a.py": "pytestmark = [pytest.mark.cluster, pytest.mark.disruptive]\n",
        "unit/test_a.py": "",
    }.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    assert names(tmp_path, cluster=False) == {"conformance", "unit"}
    added = {"argo", "conformance-tensorflow", "operate", "operate-disruptive"}
    assert names(tmp_path, cluster=True) == {"conformance", "unit", *added}


def test_suites_of_the_repository_without_a_cluster():
    left_out = names(TESTS, cluster=True) - names(TESTS, cluster=False)
    assert {"argo", "kfp_pods", "conformance-tensorflow", "operate-disruptive"} <= left_out
    assert not left_out & suites._WITHOUT_CLUSTER


def test_fixtures_are_timed(program, tmp_path):
    shutil.copytree(TESTS / "support", tmp_path / "tests/support")
    plugin = "from tests.support.durations import pytest_fixture_setup, pytest_sessionfinish\n"
    (tmp_path / "tests/conftest.py").write_text(plugin)
    slow = "import pytest, time\n@pytest.fixture\ndef slow(): time.sleep(0.2)\n"
    ran = run(program({"a": f"{slow}def test_one(slow): pass\ndef test_two(slow): pass"}))
    assert ran.returncode == 0, ran.stdout
    [row] = json.loads((tmp_path / "build/side_by_side/durations.json").read_text())["fixtures"]
    assert (row["suite"], row["fixture"], row["times"]) == ("a", "slow", 2)
    assert row["seconds"] >= 0.4
    assert "slow of a, 2 times" in ran.stdout


def test_failures_are_shown_at_the_end_with_their_output(program):
    bad = "def test_bad():\n    print('what it printed')\n    assert 1 == 2\n"
    ran = run(program({"bad": bad, "broken": "import nothing_of_this_name", "good": "def test_good(): pass"}))
    assert ran.returncode == 1
    assert "what it printed" in ran.stdout
    assert "assert 1 == 2" in ran.stdout
    assert "No module named 'nothing_of_this_name'" in ran.stdout
    assert set(ran.stdout.splitlines()[-1].partition("failed: ")[2].split(", ")) == {"bad", "broken"}


def test_arguments_reach_pytest_and_what_they_do_not_choose_is_no_failure(program):
    suites = {
        "a": "def test_x(record_property): record_property('a', 1)\ndef test_y(): assert 0",
        "b": "def test_z(): assert 0",
    }
    ran = run(program(suites, "-k", "test_x"))
    assert ran.returncode == 0, ran.stdout
    assert "b has none of these tests" in ran.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_of_them_and_their_fixtures_clean_up(program, tmp_path, number):
    command = program({"a": HANG, "b": HANG})
    with started(command, stdout=subprocess.PIPE, text=True) as process:
        files = [tmp_path / "tests" / f"pid-{name}" for name in "ab"]
        until(lambda: all(file.exists() and file.read_text() for file in files))
        second = run(command)
        assert second.returncode == 2
        assert "another run writes to" in second.stderr
        process.send_signal(number)
        read_until(process, "ending a, b")
        assert process.wait(100) == 130
    assert not any(alive(int(file.read_text())) for file in files)
    assert all((tmp_path / "tests" / f"removed-{name}").exists() for name in "ab")


def test_a_second_signal_kills_what_does_not_end(program, tmp_path):
    stubborn = HANG.replace("    yield\n", "    yield\n    (HERE / 'ending').touch(); time.sleep(600)\n")
    with started(program({"a": stubborn}), stdout=subprocess.PIPE, text=True) as process:
        file = tmp_path / "tests/pid-a"
        until(lambda: file.exists() and file.read_text())
        process.send_signal(signal.SIGINT)
        until((tmp_path / "tests/ending").exists)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    assert not alive(int(file.read_text()))


# --- reruns

ONCE = """
import pathlib
def test_once():
    state = pathlib.Path(__file__).with_suffix(".failed")
    seen, _ = state.exists(), state.touch()
    assert seen, "it fails the first time"
def test_good(): pass
"""
ALWAYS = "def test_always(): raise OSError('it fails always')\n"
FIXTURE = """
import pathlib, pytest
@pytest.fixture
def made():
    state = pathlib.Path(__file__).with_suffix(".failed")
    seen, _ = state.exists(), state.touch()
    SET_UP
    yield
    TEAR_DOWN
def test_once(made): pass
"""


def flaky(ran):
    """Return the node ids that a run lists as flaky."""
    return [line.removeprefix("flaky: ") for line in ran.stdout.splitlines() if line.startswith("flaky: ")]


def test_a_test_that_passes_in_its_rerun_is_flaky_and_does_not_fail_the_run(program, tmp_path):
    marked = f"import pytest\npytestmark = pytest.mark.alone\n{ONCE}"
    ran = run(program({"a": ONCE, "b": marked}))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert flaky(ran) == ["tests/a/test_a.py::test_once", "tests/b/test_b.py::test_once"]
    assert ran.stdout.splitlines()[-1].endswith("; flaky tests: 2; failed: none")
    results = tmp_path / "build/side_by_side"
    for suite in ("a", "b-alone"):
        assert "it fails the first time" in (results / f"{suite}.txt").read_text()
        again = (results / f"reruns/{suite}.1.txt").read_text()
        assert "1 passed in" in again, "this test, and no other"
        assert f"failed: {results / suite}.txt" in ran.stdout
        assert f"passed: {results / 'reruns' / suite}.1.txt" in ran.stdout
    assert json.loads((results / "durations.json").read_text())["flaky"] == flaky(ran)


def test_a_test_that_does_not_pass_in_its_rerun_fails_the_run(program):
    suites = {
        "always": ONCE + ALWAYS,
        "skips": ONCE.replace("assert seen", "import pytest; seen and pytest.skip('no driver'); assert seen"),
        "set_up": FIXTURE.replace("SET_UP", "assert seen").replace("TEAR_DOWN", ""),
        "tear_down": FIXTURE.replace("SET_UP", "").replace("TEAR_DOWN", "assert seen"),
    }
    ran = run(program(suites))
    assert ran.returncode == 1
    assert sorted(flaky(ran)) == [
        f"tests/{name}/test_{name}.py::test_once" for name in ("always", "set_up", "tear_down")
    ]
    assert "##### tests/always/test_always.py::test_always failed again, alone" in ran.stdout
    assert ran.stdout.count("OSError: it fails always") >= 2, "of both runs"
    assert set(ran.stdout.splitlines()[-1].partition("flaky tests: 3; failed: ")[2].split(", ")) == {"always", "skips"}


IDS = """
import pathlib, pytest, time
def check(name, option):
    assert option == "once"
    folder = pathlib.Path(__file__).parents[1]
    seen, _ = (folder / name).exists(), (folder / name).touch()
    assert seen
    (folder / "runs").touch(exist_ok=False)
    time.sleep(0.3)
    (folder / "runs").unlink()
@pytest.mark.parametrize("text", ["x y/a::b [e]"])
def test_once(text, pytestconfig): check("one-{name}", pytestconfig.option.keyword)
class TestInClass:
    def test_once(self, pytestconfig): check("two-{name}", pytestconfig.option.keyword)
    def test_good(self): assert 0
"""


def test_reruns_have_the_arguments_of_their_suite_and_do_not_run_at_once(program):
    ran = run(program({"a": IDS, "b": IDS.partition("class ")[0]}, "-k", "once"))
    assert ran.returncode == 0, ran.stdout
    names = ("a/test_a.py::TestInClass::test_once", *(f"{n}/test_{n}.py::test_once[x y/a::b [e]]" for n in "ab"))
    assert sorted(flaky(ran)) == [f"tests/{name}" for name in names]


MANY = f"import pytest\n@pytest.mark.parametrize('n', range({reruns.LIMIT + 1}))\ndef test_many(n): assert 0"
UNFINISHED = {
    "crash": f"{ONCE}def test_crash(): import os; os.kill(os.getpid(), 11)",
    "interrupt": ONCE.replace("def test_good(): pass", "def test_later(): raise KeyboardInterrupt"),
    "module": f"{ONCE}import nothing_of_this_name",
    "later": f"import atexit\n{ONCE}atexit.register(print, 'Traceback of a thread')",
}


@pytest.mark.parametrize(
    ("suites", "arguments"),
    [
        (dict.fromkeys(("unit", "wire", "golden"), ONCE), []),
        (UNFINISHED, []),
        ({"module": UNFINISHED["module"]}, ["--continue-on-collection-errors"]),
        ({"first": ONCE}, ["-x"]),
        ({"many": MANY}, []),
    ],
    ids=["unit, wire and golden", "unfinished", "one module", "not all tests", "too many"],
)
def test_a_failure_that_no_test_explains_and_a_defect_have_no_rerun(program, tmp_path, suites, arguments):
    command = program(suites, *arguments)
    for name in suites:
        (tmp_path / f"tests/{name}/test_0.py").write_text(ONCE)
    ran = run(command)
    assert (ran.returncode, flaky(ran)) == (1, []), ran.stdout
    assert not (tmp_path / "build/side_by_side/reruns").exists()
    assert set(ran.stdout.splitlines()[-1].partition("; failed: ")[2].split(", ")) == set(suites)
    assert ("no reruns: 12 tests failed, and only up to 10 are run again" in ran.stdout) == ("many" in suites)


def test_a_signal_ends_a_rerun_and_its_fixtures_clean_up(program, tmp_path):
    twice = "    assert (HERE / 'failed').exists() or (HERE / 'failed').touch()\n    (HERE / 'again').touch()\n"
    hangs = HANG.replace("    time.sleep(600)", f"{twice}    time.sleep(600)")
    with started(program({"a": hangs}), stdout=subprocess.PIPE, text=True) as process:
        read_until(process, "run again, alone: tests/a/test_a.py::test_hang")
        removed = tmp_path / "tests/removed-a"
        removed.unlink()
        until((tmp_path / "tests/again").exists)
        process.send_signal(signal.SIGTERM)
        read_until(process, "ending reruns/a.1")
        assert process.wait(100) == 130
    assert not alive(int((tmp_path / "tests/pid-a").read_text()))
    assert removed.exists()


PRINTED = """
collected 24 items / 4 deselected / 20 selected

tests/a/test_a.py ..F.....                                               [ 40%]
tests/a/test_b.py ....Es
"""


@pytest.mark.parametrize(
    ("text", "progress"),
    [
        ("", "a"),
        (PRINTED, "a 14/20 (2 failed)"),
        ("collected 1 item\n\ntests/a/test_a.py .   [100%]\n", "a 1/1"),
        ("created: 2/2 workers\n2 workers [24 items]\n\n..F..   [ 20%]\n...\n", "a 8/24 (1 failed)"),
    ],
)
def test_progress_counts_tests(tmp_path, monkeypatch, text, progress):
    monkeypatch.setattr(suites, "OUT", tmp_path)
    (tmp_path / "a.txt").write_text(text)
    assert suites.Suite("a", "", []).progress() == progress


# --- what is expected


def test_a_run_expects_what_the_last_whole_run_of_each_suite_took(program, tmp_path):
    results = tmp_path / "build/side_by_side/durations.json"
    command = program(dict.fromkeys(("plugin", "wire", "argo"), "def test_a(): pass\ndef test_b(): pass"))
    (tmp_path / "tests/side_by_side/seconds.json").write_text("{}")  # one minute each
    assert "3 suites, about 3 minutes if" in run([*command, "--cores", "0.5"]).stdout
    durations = json.loads(results.read_text())
    took = {row["suite"]: row["seconds"] for row in durations["suites"]}
    expected = {"argo without a cluster": took["argo"], "plugin": took["plugin"], "wire": took["wire"]}
    assert durations["expected"] == expected, "argo's tests on a cluster did not run"

    measured = {"argo without a cluster": 2.0, "plugin": 4.0, "wire": 3.0}
    results.write_text(json.dumps(durations | {"expected": measured}))
    (tmp_path / "tests/wire/test_wire.py").write_text("def test_b(): assert 0")
    again = run([*command, "-k", "test_b", "--cores", "0.5"])
    assert "3 suites, about 0 minutes if" in again.stdout
    ended = [line.split()[2] for line in again.stdout.splitlines() if " after " in line]
    assert ended == ["argo", "wire", "plugin"], "the shortest come first"
    assert json.loads(results.read_text())["expected"] == measured, "some tests of a suite, or a failure, say nothing"


def test_what_a_run_expects_is_saved_as_the_first_guess(program, tmp_path):
    command = program({"a": "def test_a(): pass"})
    assert run(command).returncode == 0
    shutil.copy(tmp_path / "tests/side_by_side/seconds.json", tmp_path / "before.json")
    assert run([*command, "--save-seconds"]).returncode == 0
    guess, before = (
        json.loads(path.read_text())
        for path in (tmp_path / "tests/side_by_side/seconds.json", tmp_path / "before.json")
    )
    assert guess.pop("a without a cluster") < 60
    assert guess == before
