"""The live view, on a terminal that keeps what it was sent."""

import io
import itertools
import os
import re
import statistics
import threading
import time

import pytest
from rich.console import Console
from rich.text import Text

from tests.support.event_writer import ScalarWriter
from tests.unit.cli.statuses import saved, status
from tests.unit.console.terminal import Terminal
from tfsteps.console import live_view as view_module
from tfsteps.console.live_view import LiveTable, LiveView
from tfsteps.runs.events import PartialLine, ReplicaName, ReplicaState, State, one_line
from tfsteps.runs.store import AttemptFolder, make_private
from tfsteps.tensorboard.event_files import EventOrigin


class Recorder(io.StringIO):
    """A stream that counts what is written to it, and can block as a stopped terminal does."""

    def __init__(self):
        super().__init__()
        self.writes = 0
        self.go = threading.Event()
        self.go.set()

    def write(self, text):
        self.go.wait(100)
        self.writes += 1
        return super().write(text)

    def isatty(self):
        return True


class Drawn(LiveView):
    """A view that counts how often it was drawn."""

    draws = 0

    def _draw(self):
        super()._draw()
        self.draws += 1


def make(width=100, height=30, **options):
    out = Recorder()
    console = Console(
        file=out,
        width=width,
        height=height,
        force_terminal=True,
        highlight=False,
        color_system=None,
        legacy_windows=False,
    )
    return Drawn(console, **options), out


def line(text):
    return one_line(time.time(), ReplicaName("worker", 1), text)


def settle(view):
    """Wait until all that a view was told is drawn: the second time from now on begins after it."""
    draws, end = view.draws + 2, time.monotonic() + 60
    while view.draws < draws:
        assert time.monotonic() < end, "it draws no more"
        view._redraw.set()
        time.sleep(0.02)


def screen(out, width=100):
    return Terminal(width).feed(out.getvalue())


def test_lines_scroll_above_the_table_and_none_is_lost_or_doubled():
    view, out = make()
    with view:
        view.changed(status())
        for i in range(60):
            view.lines(line(b"step %d" % i))
            time.sleep(0.01)
        settle(view)
        shown = screen(out).text()
    assert re.findall(r"\[worker-1\] step (\d+)", shown) == [str(i) for i in range(60)]
    last = shown.splitlines()[-4:]
    assert re.match(r"mnist  running  1m0\ds$", last[0])
    assert last[1].split() == ["REPLICA", "STATE", "RESTARTS", "EXIT", "PLACE", "ELAPSED", "CPU", "MEMORY"]
    assert [row.split()[0] for row in last[2:]] == ["worker-0", "worker-1"]


def test_a_line_that_has_not_ended_is_shown_below_the_others_until_it_has():
    view, out = make()
    with view:
        view.changed(status())
        view.lines(line(b"epoch 1"))
        for text in (b" 1/60 [>...]", b"45/60 [==>.]\x1b[2J"):
            view.partial(PartialLine(time.time(), ReplicaName("worker", 1), text))
            settle(view)
        shown = screen(out).text().splitlines()
        assert shown[:2] == ["[worker-1] epoch 1", "[worker-1] 45/60 [==>.]"]
        assert shown[2].startswith("mnist  running")
        view.lines(line(b"60/60 [====]"))
        settle(view)
        assert screen(out).text().splitlines()[1] == "[worker-1] 60/60 [====]"
        assert screen(out).text().count("/60") == 1


def test_an_ended_job_leaves_its_table_and_nothing_moves_after():
    view, out = make()
    with view:
        view.changed(status())
        settle(view)
        view.changed(status(state=State.FAILED, message="worker-1 ended with exit code 1."))
        view.lines(line(b"last words"))
    shown = screen(out).text().splitlines()
    assert shown[:3:2] == ["[worker-1] last words", "mnist  failed  1m01s  worker-1 ended with exit code 1."]
    assert [row.split()[0] for row in shown[3:]] == ["REPLICA", "worker-0", "worker-1"]


def test_final_false_leaves_nothing():
    view, out = make(final=False)
    with view:
        view.changed(status())
        settle(view)
        view.changed(status(state=State.SUCCEEDED))
    assert screen(out).text() == ""


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        (b"[bold]no markup[/bold] [/] :smile: [link=x]", "[bold]no markup[/bold] [/] :smile: [link=x]"),
        (b"\x1b[31mred\x1b[0m \x1b]0;title\x07plain", "red plain"),
        (b"\x1b[2J\x1b[1;1H\x1b[10Awiped", "wiped"),
        (b"bell\x07 back\x08 null\x00 vt\x0b", "bell back null vt"),
        (b"a\tb", "a    b"),
        (b" 10%\r 50%\r100%", "100%"),
        (b" 50%\r100%\r", "100%"),
        (b"\xff\xfe not UTF-8", "\ufffd\ufffd not UTF-8"),
        ("breite 日本語".encode(), "breite 日本語"),
        ("\x85\u2028\u202eabc".encode(), "abc"),
        (b"", ""),
    ],
)
def test_foreign_text_does_no_harm(sent, seen):
    view, out = make()
    with view:
        view.changed(status())
        view.lines(line(sent))
        settle(view)
        terminal = screen(out)
    assert f"[worker-1] {seen}".rstrip() in terminal.text().splitlines()
    assert terminal.unknown == []


def test_a_line_of_a_mebibyte_is_cut():
    view, out = make()
    with view:
        view.lines(line(b"x" * (1 << 20)))
    assert 1500 < len(screen(out).text()) < 3000


def test_long_lines_are_not_wrapped_by_us_so_that_they_copy_whole():
    view, out = make(width=40)
    with view:
        view.lines(line(b"y" * 150))
    assert f"[worker-1] {'y' * 150}\n" in out.getvalue()


def test_a_flood_costs_the_job_nothing_and_the_rest_is_counted():
    view, out = make()
    with view:
        out.go.clear()  # the terminal is stopped
        begun = time.perf_counter()
        for i in range(100_000):
            view.lines(line(b"line %d" % i))
            if i % 10_000 == 0:
                view.changed(status(workers=64))
        took = time.perf_counter() - begun
        out.go.set()
    shown = screen(out).text()
    assert took < 50, "the job waited for the terminal"
    seen = len(re.findall(r"\] line \d+$", shown, re.MULTILINE))
    missed = sum(int(n) for n in re.findall(r"… (\d+) lines passed", shown))
    assert seen + missed == 100_000
    assert "] line 99999" in shown


def test_it_redraws_five_times_a_second_at_most(monkeypatch):
    drawn = []
    draw = LiveView._draw
    monkeypatch.setattr(LiveView, "_draw", lambda self: (drawn.append(time.monotonic()), draw(self)))
    view, _ = make()
    with view:
        while len(drawn) < 7:
            view.changed(status(workers=64))
            view.lines(line(b"x"))
            time.sleep(0.001)
    pauses = [after - before for before, after in itertools.pairwise(drawn[:-1])]
    assert min(pauses) > 0.19
    assert statistics.median(pauses) < 0.4, "nor much less often; a machine that stands still makes some longer"


def test_a_terminal_that_goes_away_does_not_end_the_job(monkeypatch):
    view, out = make()
    with view:

        def gone(_):
            raise OSError(5, "Input/output error")

        out.write = gone
        view.changed(status())
        view.lines(line(b"x"))
        view._thread.join(60)
        assert not view._thread.is_alive()
        view.lines(line(b"y"))


@pytest.mark.parametrize("width", [1, 2, 10, 20, 40, 59, 80, 200])
@pytest.mark.parametrize("height", [1, 2, 3, 5, 10, 80])
@pytest.mark.parametrize("workers", [0, 1, 3, 64])
def test_a_board_keeps_within_any_terminal(width, height, workers):
    long = "n" * 200
    board = LiveTable(status(task=long, workers=workers, message=long))
    drawn = board.lines(width, height)
    assert len(drawn) <= height
    assert all(text.cell_len <= width for text in drawn)


def test_of_many_replicas_the_interesting_ones_are_shown_and_the_rest_counted():
    job = status(workers=64)
    job.replicas[40].state = ReplicaState.FAILED
    job.replicas[50].restarts = 2
    job.replicas[60].state = ReplicaState.PENDING
    drawn = [text.plain for text in LiveTable(job).lines(100, 8)]
    assert len(drawn) == 8
    assert [row.split()[0] for row in drawn[2:7]] == ["worker-0", "worker-1", "worker-40", "worker-50", "worker-60"]
    assert drawn[7] == "and 59 more: 59 running"


def test_several_jobs_share_the_terminal():
    view, out = make(height=20)
    with view:
        for task in ("prepare", "train", "evaluate"):
            view.changed(status(task=task, workers=30))
        view.lines(line(b"hello"), task="train")
        settle(view)
        shown = screen(out).text()
    assert shown.count("REPLICA") == 3
    assert "[train/worker-1] hello" in shown
    assert len(shown.splitlines()) == 1 + 19


def test_more_jobs_than_lines_do_not_scroll():
    view, out = make(height=6)
    with view:
        for i in range(20):
            view.changed(status(task=f"t{i}"))
        settle(view)
        assert len(screen(out).text().splitlines()) <= 5


def test_step_and_metrics_come_from_the_event_files_of_the_attempt(tmp_path, request):
    shown = status(logs=str(tmp_path / "logs"))
    attempt = AttemptFolder.of(shown.identity)
    make_private(attempt.folder)
    attempt.write_event_origin(EventOrigin(attempt=0, before={"events.out.tfevents.1": -1}))
    with ScalarWriter(tmp_path / "logs") as earlier:
        earlier.scalar("loss", 0.1, 9)
    earlier.path.rename(tmp_path / "logs" / "events.out.tfevents.1")
    writer = ScalarWriter(tmp_path / "logs")
    request.addfinalizer(writer.close)
    board = LiveTable(shown)
    for step, loss in ((1, 0.9), (2, 0.5)):
        writer.scalar("loss", loss, step)
        board.refresh()
        assert f"step {step}  loss {loss:g}" in board.headline().plain
    writer.scalar("accuracy", 0.75, 2)
    writer.scalar("rate", 0.1, 2)
    board.refresh()
    assert board.headline().plain.endswith("step 2  loss 0.5  accuracy 0.75  rate 0.1")


@pytest.mark.parametrize("state", [ReplicaState.PENDING, ReplicaState.RUNNING])
def test_processes_of_this_machine_show_what_they_use(state):
    job = status(workers=1, system="local")
    job.replicas[0].state = state
    job.replicas[0].incarnations[0].place = f"pid {os.getsid(0)} port 1"
    board = LiveTable(job)
    assert board.lines(100, 5)[2].plain.split()[-2:] == ["-", "-"]
    _, lock = saved(system="local", hold=True)
    with lock:
        board.refresh()
    cpu, memory = re.search(r"(\S+) +([\d.]+ [MG]iB)$", board.lines(100, 5)[2].plain).groups()
    assert cpu != "-"
    assert float(memory.split()[0]) > 0
    board.refresh()  # no launcher on this machine: its process ids are those of other processes here
    assert board.lines(100, 5)[2].plain.split()[-2:] == ["-", "-"]


def test_no_color_is_respected(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    out = Recorder()
    with LiveView(Console(file=out, width=80, height=20, force_terminal=True, highlight=False)) as view:
        view.changed(status())
        view.lines(line(b"x"))
    assert not re.search(r"\x1b\[[0-9;]*3\d", out.getvalue())


def test_lines_per_redraw_are_bounded():
    assert view_module._MAX_LINES <= 1000


def test_what_is_above_the_tables_takes_at_most_half_of_the_terminal():
    asked = []

    def above(width, height):
        asked.append((width, height))
        return [Text("run r1"), Text("`- task mnist")]

    view, out = make(width=60, height=21, above=above)
    with view:
        view.changed(status())
        settle(view)
        shown = screen(out, 60).text().splitlines()
    assert shown[:2] == ["run r1", "`- task mnist"]
    assert shown[2].startswith("mnist  running")
    assert asked[0] == (60, 10)
