"""The file of samples: bounded, continued after a restart, and harmless on a full disk."""

import itertools
import resource

import pytest

from tfsteps.launcher.recorder import LIMIT, UsageWriter
from tfsteps.runs.usage import Sample, Usage


def batch(at, replicas=2, cpu=1.0, memory=100):
    return [Sample(at=at, window=5.0, replica=f"worker-{i}", cpu=cpu, memory=memory) for i in range(replicas)]


@pytest.mark.parametrize(("replicas", "hours"), [(1, 17), (6, 17)])
def test_the_file_is_bounded_and_keeps_the_whole_time(tmp_path, replicas, hours):
    limit = LIMIT * replicas // 60 // 10  # a tenth of what a replica has if there are 60: a tenth of 7 days is 17 h
    writer = UsageWriter(tmp_path / "usage.jsonl", limit)
    largest = 0
    for step in range(hours * 720):
        writer.write(batch(1_750_000_000.0 + 5 * step, replicas, cpu=7.5 if step == 1000 else 1.0, memory=100 + step))
        largest = max(largest, (tmp_path / "usage.jsonl").stat().st_size)
    assert largest <= limit
    usage = Usage.read(tmp_path)
    assert len(usage.replicas) == replicas
    for replica in usage.replicas:
        assert (replica.summary.cpu_peak, replica.summary.memory_peak) == (7.5, 99 + hours * 720)
        assert replica.summary.seconds == pytest.approx(hours * 3600, rel=1e-3)
        assert len(replica.samples) >= 20, "a tenth of 200"
        starts = [s.at - s.seconds for s in replica.samples[1:]]
        assert starts == pytest.approx([s.at for s in replica.samples[:-1]], abs=1), "no gap, no overlap"
        assert replica.samples[-1].window == 5.0, "the newest are not merged"


def test_more_containers_than_fit_keep_one_sample_each(tmp_path):
    writer = UsageWriter(tmp_path / "usage.jsonl", 10_000)
    files = []
    for step in range(20):
        for sample in batch(1_750_000_000.0 + 5 * step, replicas=300):
            writer.write([sample])
            files.append((tmp_path / "usage.jsonl").stat().st_ino)
    assert sum(later != earlier for earlier, later in itertools.pairwise(files)) < 60, "not merged at each write"
    usage = Usage.read(tmp_path)
    assert len(usage.replicas) == 300
    assert all(u.summary.seconds == pytest.approx(100) for u in usage.replicas)
    assert (tmp_path / "usage.jsonl").stat().st_size < 300 * 120 * 3


def test_notes_outlive_merging(tmp_path):
    writer = UsageWriter(tmp_path / "usage.jsonl", 1000)
    writer.write([], "the metrics API does not answer")
    for step in range(100):
        writer.write(batch(5.0 * step))
    assert Usage.read(tmp_path).notes == ["the metrics API does not answer"]


def test_a_restarted_launcher_continues_the_file(tmp_path):
    path = tmp_path / "usage.jsonl"
    UsageWriter(path).write(batch(5, cpu=3.0))
    path.write_bytes(path.read_bytes() + b'{"at":10,"windo')  # it was killed
    writer = UsageWriter(path)
    writer.write(batch(15, cpu=1.0))
    assert [s.at for s in Usage.read(tmp_path).replicas[1].samples] == [5, 15]
    assert writer.roles["worker"].cpu_peak == 3.0
    assert writer.roles == Usage.read(tmp_path).roles()
    assert path.stat().st_mode & 0o777 == 0o600


def test_nothing_is_created_without_a_record(tmp_path):
    writer = UsageWriter(tmp_path / "usage.jsonl")
    assert (writer.roles, writer.warnings) == ({}, [])
    assert not list(tmp_path.iterdir())


@pytest.fixture
def disk():
    """A disk on which a file may have 1 KB; call it with the size that files may have from then on."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def sized(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))

    sized(1000)
    yield sized
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_loses_samples_and_tears_none(disk, tmp_path):
    writer = UsageWriter(tmp_path / "usage.jsonl")
    for step in range(20):
        writer.write(batch(5.0 * step))
    disk(100_000)
    writer.write(batch(500.0))
    usage = Usage.read(tmp_path)
    kept = sum(len(u.samples) for u in usage.replicas)
    assert [u.samples[-1].at for u in usage.replicas] == [500.0, 500.0]
    assert 8 < kept < 20
    assert writer.roles["worker"].seconds == 42 * 5.0, "the summary has the lost ones too"
    (warning,) = writer.warnings
    assert warning.startswith(f"{writer.lost} samples of CPU and memory could not be saved: File too large: ")
    assert writer.lost >= 42 - kept


def test_a_full_disk_while_merging_keeps_the_file(disk, tmp_path):
    writer = UsageWriter(tmp_path / "usage.jsonl", 20_000)
    disk(100_000)
    for step in range(100):
        writer.write(batch(20.0 * step))
    before = (tmp_path / "usage.jsonl").read_bytes()
    disk(5000)
    writer.write(batch(5000.0) * 200)
    assert writer.lost == 400
    assert (tmp_path / "usage.jsonl").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["usage.jsonl"]
    disk(100_000)
    writer.write(batch(6000.0))
    assert Usage.read(tmp_path).replicas[0].samples[-1].at == 6000.0


def test_a_folder_that_is_gone_loses_samples(tmp_path):
    writer = UsageWriter(tmp_path / "gone" / "usage.jsonl")
    writer.write(batch(5.0))
    assert writer.warnings == [
        f"2 samples of CPU and memory could not be saved: No such file or directory: {tmp_path}/gone/usage.jsonl"
    ]
