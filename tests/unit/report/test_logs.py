"""Log tails: the right lines, in bounded room, whatever the bytes."""

import pytest

from tests.support.finished import START
from tests.support.log_lines import log_line
from tfsteps.report import logs


def write(folder, *lines):
    path = folder / "log"
    path.write_bytes(b"".join(log_line(START + i, name, text) for i, (name, text) in enumerate(lines)))
    return path


def texts(tail):
    return [line.text for line in tail.lines]


def test_each_replica_has_its_own_lines(tmp_path):
    path = write(tmp_path, ("a-0", b"one"), ("b-0", b"two"), ("a-0", b""), ("c-0", b"not asked for"))
    tails = logs.tails(path, ["a-0", "b-0", "d-0"])
    assert {name: texts(tail) for name, tail in tails.items()} == {"a-0": ["one", ""], "b-0": ["two"], "d-0": []}
    assert tails["a-0"].lines[0].at == "15:06:40.000"
    assert not any(tail.earlier for tail in tails.values())


@pytest.mark.parametrize("block", [64, 1000, 1 << 20])
def test_only_the_last_400(tmp_path, monkeypatch, block):
    monkeypatch.setattr(logs, "_BLOCK", block)
    tail = logs.tails(write(tmp_path, *[("a-0", b"%d" % i) for i in range(500)]), ["a-0"])["a-0"]
    assert texts(tail) == [str(i) for i in range(100, 500)]
    assert tail.earlier
    tail = logs.tails(write(tmp_path, *[("a-0", b"%d" % i) for i in range(400)]), ["a-0"])["a-0"]
    assert len(tail.lines) == 400
    assert not tail.earlier


@pytest.mark.parametrize("block", [1000, 1 << 20])
def test_a_talkative_sidecar_does_not_hide_the_program(tmp_path, monkeypatch, block):
    monkeypatch.setattr(logs, "_BLOCK", block)
    program = [("a-0", b"step %d" % i) for i in range(10)]
    path = write(tmp_path, ("a-0/init", b"fetched"), *program, *[("a-0/proxy", b"%d" % i) for i in range(5000)])
    tail = logs.tails(path, ["a-0"])["a-0"]
    assert texts(tail)[:11] == ["[init] fetched", *[f"step {i}" for i in range(10)]]
    assert texts(tail)[11:] == [f"[proxy] {i}" for i in range(4611, 5000)]
    assert tail.earlier


def test_a_talkative_program_leaves_a_quarter_to_the_other_containers(tmp_path):
    both = [(name, b"%d" % i) for i in range(2000) for name in ("a-0", "a-0/proxy")]
    shown = texts(logs.tails(write(tmp_path, *both), ["a-0"])["a-0"])
    assert [text for text in shown if "proxy" not in text] == [str(i) for i in range(1700, 2000)]
    assert [text for text in shown if "proxy" in text] == [f"[proxy] {i}" for i in range(1900, 2000)]
    assert shown[-2:] == ["1999", "[proxy] 1999"]


def test_a_replica_that_ended_long_ago_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "_BLOCK", 1000)
    path = write(tmp_path, ("a-0", b"early"), *[("a-01", b"other") for i in range(100)], *[("b-0", b"x")] * 1000)
    tails = logs.tails(path, ["a-0", "b-0"])
    assert texts(tails["a-0"]) == ["early"]
    assert not tails["a-0"].earlier
    assert tails["b-0"].earlier


def test_many_replicas_share_the_room(tmp_path):
    names = [f"worker-{i}" for i in range(64)]
    path = write(tmp_path, *[(name, b"x" * 300) for name in names for _ in range(200)])
    tails = logs.tails(path, names)
    assert sum(len(text) for tail in tails.values() for text in texts(tail)) < 800_000
    assert all(len(tail.lines) >= 30 and tail.earlier for tail in tails.values())


@pytest.mark.parametrize("block", [1000, 1 << 18, 1 << 20, 1 << 22])
def test_a_long_line_is_cut_and_marked(tmp_path, monkeypatch, block):
    monkeypatch.setattr(logs, "_BLOCK", block)
    (line,) = texts(logs.tails(write(tmp_path, ("a-0", b"x" * (1 << 20))), ["a-0"])["a-0"])
    assert line == "x" * 500 + " … (line cut)"


def test_of_a_huge_log_only_the_end_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "_READ", 1000)
    monkeypatch.setattr(logs, "_BLOCK", 100)
    path = write(tmp_path, ("a-0", b"early"), *[("b-0", b"%d" % i) for i in range(100)])
    tails = logs.tails(path, ["a-0", "b-0"])
    assert tails["a-0"] == logs.LogTail([], earlier=True)
    assert texts(tails["b-0"])[-1] == "99"
    assert len(tails["b-0"].lines) < 40


@pytest.mark.parametrize(
    "broken", [b"\n", b"2025-06-15T15:0\n", b"stamp worker-0\n", b"\xff\xfe \xff \xff\n", b"cut a-0 end"]
)
def test_lines_that_a_full_disk_cut_harm_nothing(tmp_path, broken):
    path = write(tmp_path, ("a-0", b"before"))
    path.write_bytes(path.read_bytes() + broken)
    assert texts(logs.tails(path, ["a-0"])["a-0"])[0] == "before"


def test_no_log(tmp_path):
    assert logs.tails(tmp_path / "log", ["a-0"]) == {"a-0": logs.LogTail([], earlier=False)}
    assert logs.tails(tmp_path / "log", []) == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link", "link"),
        ("\x1b(Bplain\x1b=", "plain"),
        ("10%\r20%\r100%", "100%"),
        ("windows\r", "windows"),
        ("12\b\b34", "1234"),
        ("cut \x1b[", "cut "),
        ("</script><img onerror=x>", "</script><img onerror=x>"),
    ],
)
def test_plain(text, expected):
    assert logs.plain(text) == expected
