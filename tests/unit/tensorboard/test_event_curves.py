"""Curves over attempts, restarts, writers and damage: what TensorBoard's own reader says of the same files."""

import logging
import math
import pathlib
import random
import struct
import sys
import types

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.event_writer import ScalarWriter, event, field, record, varint
from tfsteps.launcher import event_summary
from tfsteps.tensorboard import event_curves, event_records
from tfsteps.tensorboard.event_curves import EventCurves
from tfsteps.tensorboard.event_files import EventOrigin
from tfsteps.tensorboard.event_records import masked_crc32c

sys.modules.setdefault("tensorboard.compat.notf", types.ModuleType("notf"))  # its reader without TensorFlow
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: E402

VARINT, BYTES, FIXED32 = 0, 2, 5
logging.getLogger("tensorboard").setLevel(logging.ERROR)
TAGS = ("loss", "accuracy")

records = st.one_of(
    st.tuples(st.just("scalar"), st.sampled_from(TAGS), st.integers(-2, 12), st.sampled_from([0.5, 0.25, -1.0, 3.0])),
    st.tuples(st.just("start"), st.integers(-2, 12)),
    st.tuples(st.just("version"), st.sampled_from(["brain.Event:2", "brain.Event:1", "other"])),
)
damages = st.one_of(
    st.none(),
    st.tuples(st.just("cut"), st.floats(0, 1)),
    st.tuples(st.just("zeros"), st.floats(0, 1)),
    st.tuples(st.just("bit"), st.floats(0, 1)),
)
writers = st.tuples(st.booleans(), st.lists(records, max_size=12), damages)
attempts = st.lists(st.lists(writers, max_size=3), min_size=1, max_size=3)


def serialized(what, wall_time):
    kind, *rest = what
    if kind == "version":
        return event(field(3, BYTES, rest[0].encode()), wall_time)
    if kind == "start":
        return event(field(2, VARINT, varint(rest[0])) + field(7, BYTES, field(1, VARINT, b"\1")), wall_time)
    tag, step, value = rest
    item = field(1, BYTES, tag.encode()) + field(2, FIXED32, struct.pack("<f", value))
    return event(field(2, VARINT, varint(step)) + field(5, BYTES, field(1, BYTES, item)), wall_time)


def damaged(data, damage):
    if damage is None or not data:
        return data
    kind, where = damage
    at = int(where * (len(data) - 1))
    if kind == "cut":
        return data[:at]
    if kind == "zeros":
        return data[:at] + bytes(min(64, len(data) - at)) + data[at + 64 :]
    return data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]


def write(folder, attempt, writer, number):
    """Write the event file of one writer: a replica of an attempt after a restart, in one of two runs."""
    in_train, content, damage = writer
    run = folder / ("train" if in_train else ".")
    run.mkdir(parents=True, exist_ok=True)
    data = b"".join(record(serialized(what, 100.0 * number + at)) for at, what in enumerate(content, 1))
    (run / f"events.out.tfevents.{number:010d}.job{attempt}-worker-0").write_bytes(damaged(data, damage))


def oracle(folder, tag):
    """Return steps and values of a curve, as TensorBoard's reader has them: of each step the value written last.

    It shows two values of one step, and rewound steps that no session start has dropped; its data server drops them.
    """
    if not folder.is_dir():
        return []
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0}, purge_orphaned_data=True)
    accumulator.Reload()
    points: list[tuple[int, float]] = []
    for item in accumulator.Scalars(tag) if tag in accumulator.Tags()["scalars"] else []:
        while points and points[-1][0] >= item.step:
            points.pop()
        points.append((item.step, item.value))
    return points


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(attempts=attempts)
def test_the_curves_of_an_attempt_are_what_tensorboard_reads_of_its_files(attempts, tmp_path_factory):
    together, number = tmp_path_factory.mktemp("together"), 0
    for attempt, written in enumerate(attempts):
        alone = tmp_path_factory.mktemp("alone")
        before = {
            str(path.relative_to(together)): attempt - 1 for path in together.rglob("events*")
        }  # as a launcher that sees the folder lists it
        for writer in written:
            number += 1
            for folder in (together, alone):
                write(folder, attempt, writer, number)
        by_host = EventOrigin(attempt=attempt, hosts={f"job{other}": other for other in range(attempt + 1)})
        for origin in (by_host, EventOrigin(attempt=attempt, before=before)):
            read = EventCurves.read(together, origin)
            for run in (".", "train"):
                for tag in TAGS:
                    curve = read.curves.get((run, tag))
                    pairs = [(value.step, value.value) for value in curve.finite] if curve else []
                    assert pairs == oracle(alone / run, tag)
            tags = {f"{run}_{tag}": f"{run}/{tag}" for run in ("train",) for tag in TAGS}
            values, notes = event_summary.collect_metrics(read, tags, origin)
            for name, tag in tags.items():
                expected = oracle(alone / "train", tag.partition("/")[2])
                assert values.get(name) == (expected[-1][1] if expected else None)
                assert expected or name in notes
    everything = EventCurves.read(together, EventOrigin(attempt=len(attempts), earlier=True))
    for tag in TAGS:
        curve = everything.curves.get(("train", tag))
        pairs = [(value.step, value.value) for value in curve.finite] if curve else []
        assert pairs == oracle(together / "train", tag)


# --- what is known of a value


def points(folder, *values, tag="loss", name="", start=0):
    with ScalarWriter(folder) as writer:
        for step, value in enumerate(values, start):
            writer.scalar(tag, value, step)
    if name:
        writer.path = writer.path.rename(writer.path.with_name(name))
    return writer.path


NEW = EventOrigin(attempt=0, before={})  # all files are of this attempt


def collected(folder, origin=NEW, tag="loss"):
    values, notes = event_summary.collect_metrics(EventCurves.read(folder, origin), {"m": tag}, origin)
    return values.get("m"), notes.get("m", "")


def zeroed(path):
    """Lose a block, as network file systems do: zeros in the middle."""
    data = bytearray(path.read_bytes())
    at = len(data) // 2
    data[at : at + 60] = bytes(60)
    path.write_bytes(data)


def test_a_value_before_damage_is_used_only_with_a_note(tmp_path):
    path = points(tmp_path, *range(10))
    zeroed(path)
    value, note = collected(tmp_path)
    assert 0 < value < 9
    assert f"Metric m, {value:g} at step {value:g}: a later value may be missing, because {path.name} is" in note
    assert int(note.rpartition(" at byte ")[2].rstrip(".")) < path.stat().st_size // 2
    points(tmp_path, 7.0, start=20, name="events.out.tfevents.9999999999.x")
    assert collected(tmp_path) == (7.0, ""), "the restarted program wrote the last value, and whole"


def test_a_curve_whose_file_is_damaged_from_its_start_is_missing_for_that_reason(tmp_path):
    path = points(tmp_path, 1.0)
    path.write_bytes(bytes(path.stat().st_size))
    value, note = collected(tmp_path)
    assert value is None
    assert note.endswith(f"for `loss`; {path.name} is damaged at byte 0.")


def test_the_last_file_may_be_cut_within_a_record_an_earlier_one_was_replaced(tmp_path):
    first = points(tmp_path, 1.0, 2.0, name="events.out.tfevents.1.x")
    first.write_bytes(first.read_bytes()[:-5])
    value, note = collected(tmp_path)
    assert value == 1.0
    assert "because events.out.tfevents.1.x ends within a record, " in note
    points(tmp_path, 3.0, name="events.out.tfevents.2.x")
    assert collected(tmp_path) == (3.0, "")


def test_two_writers_of_one_curve_at_the_same_time_are_reported(tmp_path):
    with ScalarWriter(tmp_path) as one, ScalarWriter(tmp_path) as two:
        one.scalar("loss", 1.0, 1, wall_time=1e10)
        two.scalar("loss", 2.0, 1, wall_time=2e10)
        two.scalar("other", 2.0, 1)
    value, note = collected(tmp_path)
    assert value == 2.0
    assert f"{one.path.name} and {two.path.name} were written at the same time, and both have values of `loss`" in note
    assert collected(tmp_path, tag="other") == (2.0, "")


def test_what_a_restart_has_rewound_is_no_value(tmp_path):
    with ScalarWriter(tmp_path) as writer:
        writer.scalar("loss", 1.0, 5)
        writer._write(serialized(("start", 5), 1.0))
    value, note = collected(tmp_path)
    assert (value, note) == (
        None,
        "Metric m is not set: a restart has rewound the last values of `loss`, and none were written since.",
    )


def test_after_a_rewind_into_values_that_were_left_out_the_last_is_not_known(tmp_path, monkeypatch):
    monkeypatch.setattr(event_curves, "_CROWDED", 20)
    with ScalarWriter(tmp_path) as writer:
        for step in range(100):
            writer.scalar("loss", math.sin(step), step)
        writer._write(serialized(("start", 50), 1.0))
        assert collected(tmp_path)[0] is None
        writer.scalar("loss", 8.0, 50)
    assert collected(tmp_path)[0] == 8.0


# --- whose file it is


NOW = 1_800_000_000
OURS = EventOrigin(attempt=1, hosts={"mnist-aa": 0, "mnist-bb": 1}, since=NOW)
NAMES = {
    f"events.out.tfevents.{NOW}.mnist-bb-worker-0.12.0.v2": True,
    f"events.out.tfevents.{NOW}.mnist-bb": True,
    f"events.out.tfevents.{NOW}.mnist-bb-worker-0.team.svc.7.0.v2": True,
    f"events.out.tfevents.{NOW}.mnist-aa-worker-0.12.0.v2": False,
    f"events.out.tfevents.{NOW}.mnist-bbb-worker-0.12.0.v2": False,
    f"events.out.tfevents.{NOW}.node-7.12.0.v2": False,
    "events.out.tfevents.1": False,
}


@pytest.mark.parametrize(("name", "ours"), NAMES.items())
def test_a_file_is_ours_by_the_host_name_of_a_replica(tmp_path, name, ours):
    points(tmp_path, 0.5, name=name)
    value, note = collected(tmp_path, OURS)
    assert (value == 0.5) is ours
    if not ours and "mnist-aa" in name:
        assert f"{name} existed before attempt 1 (`outputs.earlier_attempts` counts them)." in note
    elif not ours:
        assert f"whether attempt 1 wrote {name} is not known: " in note


@pytest.mark.parametrize(("seconds", "counts"), [(29, True), (45, False)])
def test_a_file_of_a_node_whose_clock_is_slow_counts_if_it_is_known_to_be_new(tmp_path, seconds, counts):
    name = f"events.out.tfevents.{NOW - seconds}.mnist-bb-worker-0.12.0.v2"
    points(tmp_path, 0.5, name=name)
    value, note = collected(tmp_path, OURS)
    assert (value == 0.5) is counts
    times = f"{name} was created at 2027-01-15T07:59:15+00:00, and the job at 2027-01-15T08:00:00+00:00: an earlier job"
    assert (f"{times} of the same name may have written it, or a node's clock is slow (mount " in note) is not counts
    seen_empty = msgspec.structs.replace(OURS, before={})
    assert collected(tmp_path, seen_empty) == (0.5, ""), "it was not there before the job"


def test_an_older_file_of_the_same_name_that_was_there_before_is_of_an_earlier_job(tmp_path):
    old = points(tmp_path, 0.5, name=f"events.out.tfevents.{NOW - 45}.mnist-bb-worker-0.12.0.v2")
    value, note = collected(tmp_path, msgspec.structs.replace(OURS, before={old.name: -1}))
    assert value is None
    assert f"{old.name} existed before attempt 1" in note
    points(tmp_path, 0.25, name=f"events.out.tfevents.{NOW}.mnist-bb-worker-0.12.0.v2")
    assert collected(tmp_path, OURS) == (0.25, ""), "of two jobs of one name, the later one wrote the value"


def test_without_host_names_a_file_is_ours_if_it_was_not_there_before(tmp_path):
    old = points(tmp_path, 0.99, name="events.out.tfevents.1.host")
    origin = EventOrigin(attempt=3, before={old.name: 2})
    assert collected(tmp_path, origin)[0] is None
    with old.open("ab") as file:  # whoever still writes there is not known to be this attempt
        file.write(record(serialized(("scalar", "loss", 99, 1.0), 1.0)))
    assert collected(tmp_path, origin)[0] is None
    points(tmp_path, 0.1)
    assert collected(tmp_path, origin) == (float.fromhex("0x1.99999ap-4"), "")


def test_the_folder_was_not_seen_before(tmp_path):
    points(tmp_path, 0.99)
    value, note = collected(tmp_path, EventOrigin(attempt=0))
    assert value is None
    assert "is not known" in note


def test_an_earlier_attempt_counts_if_the_job_says_so_and_the_note_names_it(tmp_path):
    old = points(tmp_path, 0.99, name="events.out.tfevents.1.host")
    origin = EventOrigin(attempt=3, earlier=True, before={old.name: 2})
    value, note = collected(tmp_path, origin)
    assert value == pytest.approx(0.99)
    assert note == "Metric m, 0.99 at step 0: attempt 2 wrote it, and attempt 3 wrote none."
    points(tmp_path, 0.5, 0.25, start=1)
    assert collected(tmp_path, origin) == (0.25, "")


# --- checksums


@pytest.mark.parametrize("length", [0, 1, 255, 1023, 1024, 1025, 1500, 4096, 70_001])
def test_the_checksum_of_long_data_is_that_of_its_bytes_one_by_one(length):
    data = random.Random(length).randbytes(length)
    crc = event_records._crc(data) ^ 0xFFFFFFFF
    assert masked_crc32c(data) == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_a_scalar_in_a_large_record_counts_only_with_its_checksum(tmp_path):
    image = field(1, BYTES, field(1, BYTES, b"image") + field(4, BYTES, bytes(2 << 20)))
    scalar = field(1, BYTES, field(1, BYTES, b"loss") + field(2, FIXED32, struct.pack("<f", 0.5)))
    merged = record(event(field(2, VARINT, b"\3") + field(5, BYTES, image + scalar)))
    path = pathlib.Path(tmp_path / "events.out.tfevents.1.x")
    path.write_bytes(merged)
    assert collected(tmp_path) == (0.5, "")
    path.write_bytes(merged[:-1] + bytes([merged[-1] ^ 1]))
    assert collected(tmp_path)[0] is None
