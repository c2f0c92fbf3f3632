"""Event files: what real writers write is read, what is broken harms nothing."""

import math
import os
import pathlib
import random
import struct
import subprocess
import sys
import textwrap
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.event_writer import ScalarWriter, event, field, record, varint
from tfsteps.tensorboard import event_files
from tfsteps.tensorboard.event_files import ScalarReader
from tfsteps.tensorboard.event_records import masked_crc32c

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def values(reader):
    return [(s.name, s.step, s.value) for s in reader.poll()]


def write(folder, *steps, tag="loss"):
    with ScalarWriter(folder) as writer:
        for step in steps:
            writer.scalar(tag, step / 2, step)
    return writer.path


def test_each_value_is_returned_once(tmp_path):
    reader = ScalarReader(tmp_path)
    assert reader.poll() == []
    with ScalarWriter(tmp_path / "train") as writer:
        writer.scalar("loss", 0.5, 1, wall_time=100.25)
        assert reader.poll() == [("train", "loss", 1, 100.25, 0.5)]
        writer.scalar("loss", 0.25, 2)
        writer.scalar("loss", 0.0, -3)
        assert values(reader) == [("train/loss", 2, 0.25), ("train/loss", -3, 0.0)]
    assert reader.poll() == []
    write(tmp_path, 7)
    assert values(reader) == [("loss", 7, 3.5)]
    assert not reader.behind


def test_runs_are_folders_below_the_log_folder(tmp_path):
    for folder in (".", "train", "a/b"):
        write(tmp_path / folder, 1)
    assert sorted(s.run for s in ScalarReader(tmp_path).poll()) == [".", "a/b", "train"]


def test_a_run_whose_name_is_not_utf_8_can_be_written_anywhere(tmp_path):
    write(pathlib.Path(os.fsdecode(os.fsencode(tmp_path) + b"/r\xff")), 1)
    (scalar,) = ScalarReader(tmp_path).poll()
    assert scalar.run.encode() == "r\N{REPLACEMENT CHARACTER}".encode()


def test_a_missing_folder_holds_nothing(tmp_path):
    assert ScalarReader(tmp_path / "no").poll() == []


@pytest.mark.parametrize("cut", [1, 4, 11, 12, 13, 30])
def test_a_record_that_is_still_being_written_is_waited_for(tmp_path, cut):
    reader = ScalarReader(tmp_path)
    with ScalarWriter(tmp_path) as writer:
        whole = record(event(field(2, VARINT, varint(1)) + summary(simple(0.5))))
        writer.raw(whole[:cut])
        assert reader.poll() == []
        assert reader.poll() == []
        writer.raw(whole[cut:])
        assert values(reader) == [("loss", 1, 0.5)]


def simple(value, tag=b"loss"):
    return field(1, BYTES, tag) + field(2, FIXED32, struct.pack("<f", value))


def summary(item):
    return field(5, BYTES, field(1, BYTES, item))


def flip(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


GOOD = record(event(summary(simple(0.5))))
BROKEN = {
    "garbage": b"\x93" * 100,
    "text": b"Traceback (most recent call last)\n" * 3,
    "zeros": bytes(4096),
    "length damaged": flip(GOOD, 0),
    "length's CRC damaged": flip(GOOD, 9),
    "data damaged": flip(GOOD, 30),
    "data's CRC damaged": flip(GOOD, len(GOOD) - 1),
    "no protobuf": record(b"\xff" * 40),
    "a field longer than the record": record(b"\x2a\xff\xff\xff\xff\x0f"),
    "a varint without an end": record(b"\x10" + b"\x80" * 30),
    "group wire types": record(b"\x0b\x0c"),
    "tensor content of a wrong length": record(
        event(summary(field(1, BYTES, b"x") + field(8, BYTES, field(1, VARINT, b"\1") + field(4, BYTES, b"abc"))))
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_file_is_left_alone_from_there_on(tmp_path, what):
    reader = ScalarReader(tmp_path)
    with ScalarWriter(tmp_path / "broken") as writer:
        writer.scalar("loss", 0.5, 1)
        writer.raw(BROKEN[what])
        writer.scalar("loss", 0.5, 2)
        write(tmp_path / "good", 3)
        assert sorted(values(reader)) == [("broken/loss", 1, 0.5), ("good/loss", 3, 1.5)]
        writer.scalar("loss", 0.5, 4)
        assert reader.poll() == []


OTHER = {
    "a simple value of a wrong wire type": field(1, BYTES, b"x") + field(2, VARINT, b"\5"),
    "a tag of a wrong wire type": field(1, VARINT, b"\5") + field(2, FIXED32, bytes(4)),
    "no tag": field(2, FIXED32, bytes(4)),
    "an image": field(1, BYTES, b"x") + field(4, BYTES, b"png"),
    "a text": field(1, BYTES, b"x") + field(8, BYTES, field(1, VARINT, b"\7") + field(8, BYTES, b"hello")),
    "a vector": field(1, BYTES, b"x")
    + field(
        8, BYTES, field(1, VARINT, b"\1") + field(2, BYTES, field(2, BYTES, b"\x08\3")) + field(4, BYTES, bytes(12))
    ),
}


@pytest.mark.parametrize("what", OTHER)
def test_what_is_no_scalar_is_passed_over(tmp_path, what):
    with ScalarWriter(tmp_path) as writer:
        writer.summary(OTHER[what], 1)
        writer.scalar("loss", 0.5, 2)
    assert values(ScalarReader(tmp_path)) == [("loss", 2, 0.5)]


def tensor(dtype, number, payload, wire=BYTES):
    return field(1, VARINT, varint(dtype)) + field(2, BYTES, b"") + field(number, wire, payload)


HALF_BITS = int.from_bytes(struct.pack("<e", 0.25), "little")
TENSORS = {
    "float content": (tensor(1, 4, struct.pack("<f", 0.25)), 0.25),
    "float_val packed": (tensor(1, 5, struct.pack("<f", 0.25)), 0.25),
    "float_val": (tensor(1, 5, struct.pack("<f", 0.25), FIXED32), 0.25),
    "double content": (tensor(2, 4, struct.pack("<d", 0.1)), 0.1),
    "double_val packed": (tensor(2, 6, struct.pack("<d", 0.1)), 0.1),
    "double_val": (tensor(2, 6, struct.pack("<d", 0.1), FIXED64), 0.1),
    "half content": (tensor(19, 4, struct.pack("<e", 0.25)), 0.25),
    "half_val packed": (tensor(19, 13, varint(HALF_BITS)), 0.25),
    "half_val": (tensor(19, 13, varint(HALF_BITS), VARINT), 0.25),
    "a zero left out": (field(1, VARINT, b"\1"), 0.0),
    "infinite": (tensor(1, 4, struct.pack("<f", math.inf)), math.inf),
}


@pytest.mark.parametrize("form", TENSORS)
def test_tensors_of_one_number_are_scalars(tmp_path, form):
    data, expected = TENSORS[form]
    with ScalarWriter(tmp_path) as writer:
        writer.tensor("loss", data, 1)
    assert values(ScalarReader(tmp_path)) == [("loss", 1, expected)]


def test_a_wall_time_that_is_none_becomes_zero(tmp_path):
    with ScalarWriter(tmp_path) as writer:
        writer.scalar("loss", 0.5, 1, wall_time=math.nan)
    assert ScalarReader(tmp_path).poll()[0].wall_time == 0.0


@given(data=st.binary(max_size=200), wrapped=st.booleans())
def test_no_bytes_raise(tmp_path_factory, data, wrapped):
    folder = tmp_path_factory.mktemp("any")
    (folder / "events.out.tfevents.1.x").write_bytes(record(data) if wrapped else data)
    ScalarReader(folder).poll()


def test_one_flipped_bit_anywhere_costs_only_what_comes_after(tmp_path):
    path = write(tmp_path, 1, 2, 3)
    data = path.read_bytes()
    rng = random.Random(0)
    for _ in range(200):
        at = rng.randrange(len(data))
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :])
        assert values(ScalarReader(tmp_path)) in [[("loss", s, s / 2) for s in range(1, n)] for n in range(1, 4)]


def test_files_may_disappear_shrink_and_be_other_things(tmp_path):
    reader = ScalarReader(tmp_path)
    gone, shrunk = write(tmp_path / "gone", 1), write(tmp_path / "shrunk", 1)
    os.mkfifo(tmp_path / "events.out.tfevents.fifo")
    (tmp_path / "events.out.tfevents.folder").mkdir()
    (tmp_path / "events.out.tfevents.dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "checkpoint").write_bytes(b"x")
    assert len(reader.poll()) == 2
    gone.unlink()
    shrunk.write_bytes(b"")
    write(tmp_path / "new", 5)
    assert values(reader) == [("new/loss", 5, 2.5)]


def test_a_poll_is_bounded_and_the_next_one_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(event_files, "POLL_BYTES", 1000)
    for run in ("a", "b"):
        write(tmp_path / run, *range(100))
    reader, polls = ScalarReader(tmp_path), []
    while not polls or reader.behind:
        polls.append(reader.poll())
    assert max(map(len, polls)) < 30
    assert len(polls) > 8
    assert {s.run for s in polls[0] + polls[1]} == {"a", "b"}, "one file must not keep the other waiting"
    assert sorted((s.run, s.step) for poll in polls for s in poll) == [(r, s) for r in "ab" for s in range(100)]


def test_a_terabyte_of_images_is_passed_over_unread(tmp_path):
    image = (1 << 40).to_bytes(8, "little")
    with ScalarWriter(tmp_path) as writer:
        writer.raw(image + struct.pack("<I", masked_crc32c(image)))
        writer.path.open("ab").close()
        os.truncate(writer.path, writer.path.stat().st_size + (1 << 40) + 4)
        writer.scalar("loss", 0.5, 1)
    start = time.perf_counter()
    assert values(ScalarReader(tmp_path)) == [("loss", 1, 0.5)]
    assert time.perf_counter() - start < 30


def test_a_length_that_is_a_lie_allocates_nothing(tmp_path):
    length = (1 << 62).to_bytes(8, "little")
    with ScalarWriter(tmp_path) as writer:
        writer.raw(length + struct.pack("<I", masked_crc32c(length)) + b"x" * 100)
    assert ScalarReader(tmp_path).poll() == []


def test_tensorboard_reads_what_the_writer_writes(tmp_path):
    with ScalarWriter(tmp_path / "train") as writer:
        writer.scalar("loss", 0.5, 1, wall_time=100.0)
        writer.scalar("loss", 0.25, 2, wall_time=101.5)
    program = """
        import sys, types
        sys.modules["tensorboard.compat.notf"] = types.ModuleType("notf")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        accumulator = EventAccumulator(sys.argv[1])
        accumulator.Reload()
        print([(e.wall_time, e.step, e.value) for e in accumulator.Scalars("loss")])
    """
    seen = subprocess.check_output([sys.executable, "-c", textwrap.dedent(program), tmp_path / "train"], text=True)
    assert seen.strip() == "[(100.0, 1, 0.5), (101.5, 2, 0.25)]"


@pytest.mark.tensorflow
def test_what_tensorflow_writes_is_read(tmp_path):
    program = """
        import sys
        import tensorflow as tf
        with tf.summary.create_file_writer(sys.argv[1] + "/tf2").as_default():
            for step in range(3):
                tf.summary.scalar("loss", 1.0 / (step + 1), step=step)
            tf.summary.scalar("zero", 0.0, step=0)
            for dtype in (tf.float16, tf.float32, tf.float64):
                tf.summary.write("raw/" + dtype.name, tf.constant(0.25, dtype), step=5)
            tf.summary.histogram("weights", tf.ones([10]), step=0)
            tf.summary.text("note", "hello", step=0)
            tf.summary.image("image", tf.zeros([1, 2, 2, 1]), step=0)
        with tf.compat.v1.Graph().as_default():
            writer = tf.compat.v1.summary.FileWriter(sys.argv[1] + "/tf1")
            value = tf.compat.v1.Summary.Value(tag="accuracy", simple_value=0.75)
            writer.add_summary(tf.compat.v1.Summary(value=[value]), 9)
            writer.close()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program), tmp_path], check=True, capture_output=True)
    assert sorted(values(ScalarReader(tmp_path))) == [
        ("tf1/accuracy", 9, 0.75),
        ("tf2/loss", 0, 1.0),
        ("tf2/loss", 1, 0.5),
        ("tf2/loss", 2, struct.unpack("<f", struct.pack("<f", 1 / 3))[0]),
        ("tf2/raw/float16", 5, 0.25),
        ("tf2/raw/float32", 5, 0.25),
        ("tf2/raw/float64", 5, 0.25),
        ("tf2/zero", 0, 0.0),
    ]
