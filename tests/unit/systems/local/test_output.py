"""Output of local replicas is taken at once, and read in order whenever that may be."""

import os
import resource

import pytest

from tests.support.waiting import until
from tfsteps.systems.local.output import Collector

BLOCK = b"x" * 99 + b"\n"


@pytest.fixture
def collector(tmp_path):
    collector = Collector(tmp_path, 2)
    yield collector
    collector.close()


def taken(collector):
    """Take all that waits, the end of one owner after the other."""
    texts = []
    while (one := until(collector.take)) and one[2]:
        texts.append(one[2])
    return one[0], b"".join(texts)


def test_a_writer_never_waits_for_the_reader(collector):
    read, write = os.pipe()
    collector.add("a", read)
    for _ in range(200_000):  # 20 MB; the pipe alone would take one
        os.write(write, BLOCK)
    os.close(write)
    assert taken(collector) == ("a", BLOCK * 200_000)
    os.close(read)


def test_each_source_has_its_own_bytes_and_its_end(collector):
    pipes = {name: os.pipe() for name in "ab"}
    for name, (read, _) in pipes.items():
        collector.add(name, read)
    for number in range(1000):
        for name, (_, write) in pipes.items():
            os.write(write, b"%s %d\n" % (name.encode(), number))
    for _, write in pipes.values():
        os.close(write)
    texts = {"a": b"", "b": b""}
    ends = set()
    while len(ends) < 2:
        name, _, data = until(collector.take)
        assert name not in ends
        texts[name] += data
        ends |= set() if data else {name}
    assert texts == {name: b"".join(b"%s %d\n" % (name.encode(), n) for n in range(1000)) for name in "ab"}


def test_nothing_waits_for_one_that_holds_the_pipe_of_an_ended_process_open(collector):
    read, write = os.pipe()
    collector.add("a", read)
    os.write(write, b"last")
    collector.finish("a")
    assert taken(collector) == ("a", b"last")
    os.close(write)


def test_space_is_given_back_once_all_is_read(collector):
    read, write = os.pipe()
    collector.add("a", read)
    for _ in range(3):
        got = 0
        for _ in range(40_000):
            os.write(write, BLOCK)
        while got < 40_000 * len(BLOCK):
            got += len(until(collector.take)[2])
        os.write(write, BLOCK)
        until(collector.take)
        assert os.fstat(collector._file.fileno()).st_size < 1 << 20
    os.close(write)


@pytest.mark.parametrize("room", [0, 300_000])
def test_on_a_full_disk_the_writer_waits_and_nothing_is_lost(room, collector):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        read, write = os.pipe()
        os.set_blocking(write, False)
        collector.add("a", read)
        sent, got = 0, 0
        while sent < 20_000_000:
            try:
                sent += os.write(write, BLOCK * 100)
            except BlockingIOError:
                assert collector._in_memory <= 5 << 20
                if one := collector.take():
                    got += len(one[2])
        os.close(write)
        _, rest = taken(collector)
        assert got + len(rest) == sent
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_an_error_in_the_thread_reaches_the_reader(collector, monkeypatch):
    monkeypatch.setattr(collector, "_move", lambda _: 1 / 0)
    read, write = os.pipe()
    collector.add("a", read)
    os.write(write, b"x")
    with pytest.raises(ZeroDivisionError):
        until(collector.take)
