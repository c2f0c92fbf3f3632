"""Reading a pod's log again and again: each line once and in order, whatever times the lines have."""

import datetime as dt
import random

import pytest

from tfsteps.answer import YES, known
from tfsteps.kube import log_lines
from tfsteps.kube.log_lines import Lines, Moved, Position, Splitter

ZONES = ("Z", "+08:00", "-03:30")


def stamp(at, zone="Z"):
    """Return a time in seconds, a text with as many digits as a clock has, as the kubelet writes it."""
    whole, _, fraction = at.partition(".")
    offset = dt.UTC if zone == "Z" else dt.datetime.fromisoformat(f"2026-01-01T00:00:00{zone}").tzinfo
    second = dt.datetime.fromtimestamp(int(whole), offset).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{second}.{fraction:0<9}{zone}".encode()


class Node:
    """The log file of a container: pairs of a time in nanoseconds and a line as the kubelet sends it."""

    def __init__(self, lines):
        self.lines = lines
        self.begin = 0  # of what rotation has left

    def answer(self, query, end):
        """Return what the kubelet sends of the first `end` lines."""
        since = query.get("sinceTime")
        after = dt.datetime.fromisoformat(since).timestamp() * 1e9 if since else float("-inf")
        return b"".join(line for at, line in self.lines[self.begin : end] if at >= after)


def read(position, data, rng=None):
    """Take an answer in parts; return the texts."""
    splitter, texts = Splitter(), []
    while data:
        size = rng.choice((1, 7, 100, 10_000)) if rng else len(data)
        part, data = data[:size], data[size:]
        for block, continued in splitter.feed(part):
            if lines := position.take(block, continued=continued):
                assert len(lines.texts) == len(lines.stamps)
                assert not lines.incomplete
                texts += lines.texts
    return texts


def search(position, data):
    async def parts():
        yield data

    with pytest.raises(StopIteration) as ended:  # it does not wait
        position.search(Splitter().blocks_of(parts())).send(None)
    return ended.value.value


def written(rng):
    """Return what a container prints, by clocks of all kinds: (time, line) as the kubelet has them."""
    tick = rng.choice((1, 10**3, 10**6, 10**9))  # nanoseconds; CRI-O's may be coarse
    step = rng.choice((10**4, 10**7, 4 * 10**8))
    zone = rng.choice(ZONES)
    now, lines = 1_795_000_000 * 10**9, []
    set_at, set_by = rng.randrange(100), rng.choice((-7200, 10800)) * 10**9  # somebody may set the clock, once
    for i in range(rng.randrange(1, 60)):
        now += rng.randrange(step) + (set_by if i == set_at else 0)
        late = rng.randrange(10**8) if rng.random() < 0.2 else 0
        at = (now - late) // tick * tick
        text = rng.choice((b"ok", b"", b"%d" % i, b"2026-11-21T08:00:01.000000000Z", b"\xff\r" * 3))
        lines.append((at, stamp(f"{at // 10**9}.{at % 10**9:09d}", zone) + b" " + text + b"\n", text))
    return lines


def is_last(position, lines):
    """Tell whether the position is at the end of these lines, as the node answers."""
    return position.is_last([(line, False) for line in lines[-int(position.last_lines) :]])


@pytest.mark.parametrize("seed", range(300))
def test_no_line_is_lost_or_doubled_however_often_the_answer_is_cut(seed):
    rng = random.Random(seed)
    lines = written(rng)
    whole = [text for _, _, text in lines]
    node, position, texts = Node([(at, line) for at, line, _ in lines]), Position(), []

    def again():
        data = node.answer(position.resume(), len(lines))
        assert search(position, data).yes, "it is there"
        position.resume()
        return read(position, data, rng)

    for end in [*sorted(rng.randrange(len(lines) + 1) for _ in range(rng.randrange(6))), len(lines), len(lines)]:
        query = position.resume()
        data = node.answer(query, end)
        if end < len(lines):  # cut in the middle of a line
            data += node.answer({}, end + 1)[-rng.randrange(1, 30) :][:-1].replace(b"\n", b"")
        try:
            texts += read(position, data, rng)
        except Moved:
            texts += again()
        if texts and is_last(position, [line for _, line, _ in lines]).yes:
            assert texts == whole
    if not is_last(position, [line for _, line, _ in lines]).yes:  # a clock that was set back has hidden some
        position.look_everywhere()
        texts += again()
    assert texts == whole


def pairs(*rows):
    """Return pairs for a node: each row is the milliseconds of its time and its texts, which share that time."""
    base = 1_795_000_000_000
    return [
        ((base + at) * 10**6, stamp(f"{(base + at) // 1000}.{(base + at) % 1000:03d}") + b" %b\n" % text.encode())
        for at, *texts in rows
        for text in texts
    ]


SAME = pairs((0, "start"), (10, *"AAAAAA"), (20, "end"))
PAIRS = pairs((0, "start"), (10, *"ABABAB"), (20, "end"))
ONLY = pairs((10, *"AAAAAA"))


@pytest.mark.parametrize("lines", [SAME, PAIRS, ONLY, SAME[:-1], PAIRS[:-1]], ids=lambda lines: str(len(lines)))
def test_the_end_is_known_though_lines_before_it_are_equal_and_share_a_time(lines):
    for read_so_far in range(1, len(lines) + 1):
        node, position = Node(lines), Position()
        read(position, node.answer(position.resume(), read_so_far))
        assert is_last(position, [line for _, line in lines]) == known(read_so_far == len(lines))


@pytest.mark.parametrize("lines", [SAME, PAIRS], ids=["same", "pairs"])
@pytest.mark.parametrize("read_so_far", range(1, 8))
@pytest.mark.parametrize("dropped", range(8))
def test_equal_lines_that_share_a_time_are_found_again_in_a_rotated_log_or_said_to_be_doubtful(
    lines, read_so_far, dropped
):
    node, position = Node(lines), Position()
    texts = read(position, node.answer(position.resume(), read_so_far))
    node.begin, answer = dropped, YES
    try:
        texts += read(position, node.answer(position.resume(), len(lines)))
    except Moved:
        answer = search(position, node.answer(position.resume(), len(lines)))
        if not answer.no:
            position.resume()
            texts += read(position, node.answer(position.resume(), len(lines)))
    if answer.yes:
        assert texts == [line.split(b" ", 1)[1][:-1] for _, line in lines]
    else:
        assert dropped, "a log that is whole is read exactly"


def nanoseconds(count):
    times = [1_795_000_000 * 10**9 + i * 10**6 for i in range(count)]
    return [(at, stamp(f"{at // 10**9}.{at % 10**9:09d}") + b" line %d\n" % i) for i, at in enumerate(times)]


def test_a_rotated_log_that_still_has_the_last_line_goes_on_behind_it():
    node, position = Node(nanoseconds(3000)), Position()
    texts = read(position, node.answer(position.resume(), 2500))
    node.begin = 2400
    with pytest.raises(Moved):
        read(position, node.answer(position.resume(), 3000))
    assert search(position, node.answer(position.resume(), 3000)).yes
    texts += read(position, node.answer(position.resume(), 3000))
    assert texts == [b"line %d" % i for i in range(3000)]


def test_a_rotated_log_that_has_lost_the_last_line_has_moved():
    node, position = Node(nanoseconds(3000)), Position()
    read(position, node.answer(position.resume(), 2500))
    node.begin = 2600
    with pytest.raises(Moved):
        read(position, node.answer(position.resume(), 3000))
    assert search(position, node.answer(position.resume(), 3000)).no


@pytest.mark.parametrize(
    "time",
    [
        b"2026-13-21T08:00:01.000000000Z",
        b"2026-02-30T08:00:01.000000000Z",
        b"2026-11-21T25:00:01.000000000Z",
        b"0000-00-00T00:00:00.000000000Z",
        b"0001-01-01T00:00:00Z",
        b"9999-12-31T23:59:59.999999999-01:00",
        b"12026-11-21T08:00:01.000000000Z",
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_line_with_an_impossible_time_has_that_of_the_line_before(time, place):
    data = [line for _, line in nanoseconds(2)]
    data.insert(place, time + b" odd\n")
    position, texts = Position(), [b"line 0", b"line 1"]
    texts.insert(place, b"odd")
    lines = position.take(b"".join(data))
    assert lines.texts == texts
    assert not lines.incomplete
    assert all(dt.datetime.fromisoformat(item.decode()).year == 2026 for item in lines.stamps[place:])
    position.resume()
    assert position.take(b"".join(data)) is None
    assert position.take(b"".join(nanoseconds(3)[2][1:])).texts == [b"line 2"]


def test_a_log_without_any_possible_time_comes_once():
    data, position = [b"0001-01-01T00:00:00Z same\n" * 3, b"0001-01-01T00:00:00Z more\n"], Position()
    assert position.take(data[0]).texts == [b"same"] * 3
    position.resume()
    assert position.take(b"".join(data)).texts == [b"more"]
    position.resume()
    assert position.take(b"".join(data)) is None


def test_lines_of_the_node_without_a_time_are_shown_and_reported():
    (_, first), (_, second), (_, third) = nanoseconds(3)
    position = Position()
    lines = position.take(first + b"failed to watch\n" + second + b"\n" + third)
    notice = b"(log incomplete: the line before has no time: the node put it there, or dropped lines)"
    assert lines.texts == [b"line 0", b"failed to watch", notice, b"line 1", notice, b"line 2"]
    assert lines.incomplete
    assert lines.stamps == sorted(lines.stamps)


def test_the_rest_of_a_line_that_began_before_what_is_read_again_is_no_line():
    (_, first), (_, second) = nanoseconds(2)
    position = Position()
    position.take(first)
    position.resume()
    assert position.take(b"the second half of a long line\n" + first + second).texts == [b"line 1"]


@pytest.mark.parametrize("over", [-1, 0, 1, log_lines.LONGEST_LINE])
@pytest.mark.parametrize("size", [1 << 16, 1_000_003])
def test_a_line_that_is_too_long_comes_in_the_same_pieces_each_time(over, size):
    head = nanoseconds(1)[0][1].split(b" ")[0] + b" "
    data = head + b"x" * (log_lines.LONGEST_LINE - len(head) + over) + b"\n" + nanoseconds(2)[1][1]
    position = Position()

    def take():
        splitter = Splitter()
        parts = [data[i : i + size] for i in range(0, len(data), size)]
        blocks = splitter.blocks(parts)
        answer = [lines for block, continued in blocks if (lines := position.take(block, continued=continued))]
        return [text for lines in answer for text in lines.texts]

    texts = take()
    assert b"".join(texts[:-1]) == b"x" * (log_lines.LONGEST_LINE - len(head) + over)
    assert max(map(len, texts)) <= log_lines.LONGEST_LINE
    assert texts[-1] == b"line 1"
    position.resume()
    assert take() == []


def test_times_are_reported_in_utc():
    block = b"2026-11-21T05:45:01.123456789+05:45 a\n" * 2 + b"2026-11-21T00:00:01.100000000+00:00 b\n"
    assert Position().take(block) == Lines(
        [b"a", b"a", b"b"], [b"2026-11-21T00:00:01.123456Z"] * 2 + [b"2026-11-21T00:00:01.100000Z"]
    )
