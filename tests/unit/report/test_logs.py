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
    found = logs.tails(path, ["a-0", "b-0", "d-0"])
    assert {name: texts(tail) for name, tail in found.items()} == {"a-0": ["one", ""], "b-0": ["two"], "d-0": []}
    assert found["a-0"].lines[0].at == "15:06:40.000"
    assert not any(tail.earlier for tail in found.values())


def test_only_the_last_200(tmp_path):
    tail = logs.tails(write(tmp_path, *[("a-0", b"%d" % i) for i in range(500)]), ["a-0"])["a-0"]
    assert texts(tail) == [str(i) for i in range(300, 500)]
    assert tail.earlier


def test_many_replicas_share_the_room(tmp_path):
    names = [f"worker-{i}" for i in range(64)]
    path = write(tmp_path, *[(name, b"x" * 300) for name in names for _ in range(200)])
    found = logs.tails(path, names)
    assert sum(len(text) for tail in found.values() for text in texts(tail)) < 220_000
    assert all(len(tail.lines) >= 5 and tail.earlier for tail in found.values())


def test_a_long_line_is_cut_and_marked(tmp_path):
    (line,) = texts(logs.tails(write(tmp_path, ("a-0", b"x" * (1 << 20))), ["a-0"])["a-0"])
    assert line == "x" * 500 + " … (line cut)"


def test_of_a_huge_log_only_the_end_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "_READ", 1000)
    path = write(tmp_path, ("a-0", b"early"), *[("b-0", b"%d" % i) for i in range(100)])
    found = logs.tails(path, ["a-0", "b-0"])
    assert found["a-0"] == logs.Tail([], earlier=True)
    assert texts(found["b-0"])[-1] == "99"
    assert len(found["b-0"].lines) < 30


@pytest.mark.parametrize(
    "broken", [b"\n", b"2025-06-15T15:0\n", b"stamp worker-0\n", b"\xff\xfe \xff \xff\n", b"cut a-0 end"]
)
def test_lines_that_a_full_disk_cut_harm_nothing(tmp_path, broken):
    path = write(tmp_path, ("a-0", b"before"))
    path.write_bytes(path.read_bytes() + broken)
    assert texts(logs.tails(path, ["a-0"])["a-0"])[0] == "before"


def test_no_log(tmp_path):
    assert logs.tails(tmp_path / "log", ["a-0"]) == {"a-0": logs.Tail([], earlier=False)}
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
