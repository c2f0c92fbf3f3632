"""What programs get of a suspension, each by the notice that it knows, and what is remembered over it."""

import signal
import time

import pytest

from tests.hai import pods
from tests.hai.environment import HaiEnvironment
from tests.hai.platform import INTERRUPT
from tests.support.waiting import until
from tfsteps.runs.events import State

pytestmark = [pytest.mark.skipif(not pods.may_isolate(), reason="ranks need namespaces, which root may make")]

# As HAI's guide has it, written from reference hai.md: rank 0 polls the flag, reports, saves, reports that it may go.
_NATIVE = """
import ctypes, os, pathlib, pickle, signal, socket, sys, time

def show(number, frame):
    print("signalled", "late" if checkpoint.exists() else "early", flush=True)  # late: when rank 0 has gone
    os._exit(1)

def tell(source):
    body = pickle.dumps({"source": source})
    host = "{}-{}-manager-0".format(os.environ["MARSV2_USER"], os.environ["MARSV2_TASK_ID"])
    with socket.create_connection((host, 7000), 10) as connection:
        connection.sendall(str(len(body) + 8).rjust(8).encode() + body)
        print(source, pickle.loads(connection.recv(1024))["success"], flush=True)

signal.signal(signal.SIGTERM, show)
checkpoint = pathlib.Path(os.environ["TFSTEPS_OUTPUT_DIR"], "checkpoint")
if checkpoint.exists():
    sys.exit(print("resumed", flush=True))
if os.environ["RANK"] == "0":
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    flag = libc.shmat(libc.shmget(ctypes.c_int(7123378543 & 0xFFFFFFFF), ctypes.c_size_t(1), 0o1777), None, 0)
    print("up", flush=True)
    while ctypes.string_at(flag, 1) != b"1":
        time.sleep(0.1)
    tell("receive_suspend_command")
    time.sleep(4)
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    checkpoint.touch()
    tell("go_suspend")
print("up", flush=True)
time.sleep(600)
"""

_BY_FILE = """
import os, pathlib, sys, time, tfsteps_suspend
checkpoint = pathlib.Path(os.environ["TFSTEPS_OUTPUT_DIR"], "checkpoint." + os.environ["RANK"])
if checkpoint.exists():
    sys.exit(print("resumed", flush=True))
print("up", flush=True)
while not tfsteps_suspend.suspended():
    time.sleep(0.1)
time.sleep(2)
checkpoint.parent.mkdir(parents=True, exist_ok=True)
checkpoint.touch()
tfsteps_suspend.remember(5)
tfsteps_suspend.leave()
"""


@pytest.fixture
def environment(tmp_path):
    with HaiEnvironment(tmp_path) as environment:
        environment.platform.received, environment.platform.final = 15.0, 15.0
        yield environment


def started(environment, script, workers=2, **options):
    """Start a job of this program, and return its launcher once all ranks are up."""
    job = {"roles": {"worker": {"replicas": workers}}, "success": "all_workers", "deadlines": {"total": "100s"}}
    launcher = environment.launch({**job, "command": ["python", "-c", script], "systems": {"hai": options}})
    until(lambda: launcher.started() and texts(launcher).count("up") == workers)
    return launcher


def texts(launcher):
    return [line for _, line in launcher.lines()]


def test_a_program_that_polls_the_platforms_flag_saves_and_goes_undisturbed(environment):
    launcher = started(environment, _NATIVE, sigterm_delay="1s")
    time.sleep(2)  # a program is known to poll after a second
    environment.platform.stop(environment.newest(), "suspend")
    launcher.ends(0, State.SUCCEEDED)
    printed = texts(launcher)
    assert "signalled early" not in printed
    assert [line for line in printed if line[-2:] == " 1"] == ["receive_suspend_command 1", "go_suspend 1"]
    assert printed.count("resumed") == 2
    first, second = environment.tasks()
    assert (first.stop_code, first.suspend_code, second.restart_count) == (INTERRUPT, 3, 1)


def test_a_program_that_polls_the_file_has_time_before_sigterm(environment):
    launcher = started(environment, _BY_FILE, sigterm_delay="10s")
    began = time.monotonic()
    environment.platform.stop(environment.newest(), "suspend")
    until(lambda: len(environment.tasks()) == 2)
    assert time.monotonic() - began < 12, "the platform need not wait once all have left"
    launcher.ends(0, State.SUCCEEDED)
    assert texts(launcher).count("resumed") == 2
    assert environment.newest().whole_life_state == 5, "a number that is remembered last is delivered before the end"


def test_a_program_without_any_handler_is_ended_by_sigterm(environment):
    launcher = started(environment, "import time; print('up', flush=True); time.sleep(600)", sigterm_delay="2s")
    began = time.monotonic()
    environment.platform.stop(environment.newest(), "suspend")
    until(lambda: len(environment.tasks()) == 2)
    assert 2 < time.monotonic() - began < 15
    launcher.signal(signal.SIGTERM)
    launcher.ends(12, State.CANCELLED)


@pytest.mark.parametrize("ending", ["", "os._exit(0)"])
def test_a_number_is_remembered_although_the_manager_starts_later_than_the_program_ends(environment, ending):
    environment.platform.manager_delay = 4.0
    script = (
        "import os, time, tfsteps_suspend as s\nbegan = time.monotonic()\nprint('up', s.remembered(), flush=True)\n"
        "for number in range(20): s.remember(number)\n"
        f"print(s.remembered(), time.monotonic() - began < 4, flush=True)\n{ending}"
    )
    launcher = environment.launch({"roles": {"worker": {}}, "command": ["python", "-c", script]})
    launcher.ends(0, State.SUCCEEDED)
    assert texts(launcher) == ["up 0", "19 True"]
    assert environment.newest().whole_life_state == 19


def test_reports_are_repeated_until_the_manager_answers(environment):
    launcher = started(environment, _BY_FILE, sigterm_delay="10s")
    environment.platform.unanswered = {"receive_suspend_command": 1, "set_whole_life_state": 4, "go_suspend": 1}
    environment.platform.stop(environment.newest(), "suspend")
    launcher.ends(0, State.SUCCEEDED)
    assert (environment.tasks()[0].suspend_code, environment.newest().whole_life_state) == (3, 5)
