"""The real TensorBoard as a child process."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from tests.support.event_writer import ScalarWriter
from tests.support.jobs import alive
from tests.support.waiting import until
from tfsteps.runs.survivors import session_members
from tfsteps.tensorboard import process
from tfsteps.tensorboard.process import TensorBoardError, TensorBoardProcess


def get(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)


def processes(board):
    return [pid for pid in session_members(board._process.pid) if alive(pid)]


def test_it_answers_and_ends_with_its_data_server(tmp_path):
    board = TensorBoardProcess(tmp_path / "not there yet")
    with board:
        assert board.url.startswith("http://127.0.0.1:")
        assert get(f"{board.url}data/environment")["data_location"] == str(tmp_path / "not there yet")
        url, mine = board.url, processes(board)
    assert not any(alive(pid) for pid in mine)
    assert board.url == ""
    with pytest.raises(OSError, match="refused"):
        get(url)


def test_it_serves_curves_without_tensorflow(tmp_path):
    writer = ScalarWriter(tmp_path)
    writer.scalar("loss", 0.5, 1)
    writer.close()
    with TensorBoardProcess(tmp_path) as board:
        until(lambda: get(f"{board.url}data/runs") == ["."])
        assert get(f"{board.url}data/plugins_listing")["scalars"]["enabled"]  # which asks every plugin
        maps = pathlib.Path(f"/proc/{board._process.pid}/maps").read_text()
    assert "numpy" in maps, "the wrong process was looked at"
    assert "libtensorflow" not in maps


def test_one_that_ignores_sigterm_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "_GRACE_SECONDS", 0.3)
    with contextlib.ExitStack() as stack:
        before = signal.signal(signal.SIGTERM, signal.SIG_IGN)  # which a child inherits
        try:
            board = stack.enter_context(TensorBoardProcess(tmp_path))
        finally:
            signal.signal(signal.SIGTERM, before)
        mine = processes(board)
        os.killpg(board._process.pid, signal.SIGTERM)
        time.sleep(0.2)
        assert all(alive(pid) for pid in mine), "it did not ignore SIGTERM"
    assert not any(alive(pid) for pid in mine)


def test_it_dies_with_a_parent_that_is_killed(tmp_path):
    code = (
        "import sys, time; from tfsteps.tensorboard.process import TensorBoardProcess\n"
        "with TensorBoardProcess(sys.argv[1]) as board:\n"
        "    print(board._process.pid, flush=True); time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE)
    with parent:
        leader = int(parent.stdout.readline())
        mine = session_members(leader)
        assert leader in mine
        parent.kill()
    until(lambda: not any(alive(pid) for pid in mine))


def test_a_port_that_is_taken_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(TensorBoardError, match=rf"bind to port {port}.*choose another port"),
            TensorBoardProcess(tmp_path, port),
        ):
            pass


def test_a_missing_installation_is_an_error_that_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(TensorBoardError, match=r"not installed.*pip install"), TensorBoardProcess(tmp_path):
        pass


def test_modules_of_the_current_folder_are_not_taken_for_its_own(tmp_path, monkeypatch):
    for name in ("tensorboard.py", "logging.py"):
        (tmp_path / name).write_text("raise RuntimeError('shadowed')")
    monkeypatch.chdir(tmp_path)
    with contextlib.ExitStack() as stack:
        assert stack.enter_context(TensorBoardProcess("logs")).url
