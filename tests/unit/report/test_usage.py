"""CPU and memory in the report: curves, requests and limits, and what is notable."""

import random
import re

import msgspec
import pytest

from tests.support import finished
from tests.support.finished import START, attempt_of
from tests.unit.report.test_html import Reader
from tests.unit.report.test_page import EVIL, page_of
from tfsteps.launcher.recorder import UsageWriter
from tfsteps.report.usage import sentences
from tfsteps.runs.events import State
from tfsteps.runs.usage import ReplicaUsage, Sample, UsageSummary
from tfsteps.spec import Resources

GIB = 1 << 30


def used(*replicas, seconds=600.0):
    """Return the usages of workers: pairs of the peak of CPU, and of memory in GiB."""
    return [
        ReplicaUsage(
            replica=f"worker-{index}",
            summary=UsageSummary(seconds=seconds, cpu_peak=cpu, memory_peak=None if gib is None else int(gib * GIB)),
        )
        for index, (cpu, gib) in enumerate(replicas)
    ]


def resources(cpu=None, gib=None, **more):
    return Resources(cpu=cpu, memory=gib and gib * GIB, **more)


@pytest.mark.parametrize(
    ("usages", "request_", "expected"),
    [
        (used((0.4, 1)), resources(2), ["worker-0 used at most 0.4 of 2 requested cores."]),
        (used((0.4, 1), (0.7, 1)), resources(2), ["No worker used more than 0.7 of 2 requested cores."]),
        (used((0.4, 1), (1.7, 1)), resources(2), []),
        (used((0.04, 1)), resources(0.5), ["worker-0 used at most 0.04 of 0.5 requested cores."]),
        (used((2, 0.5)), resources(2, 4), ["worker-0 used at most 512 MiB of 4.0 GiB requested memory."]),
        (
            used((2, 3.9), (2, 2.5)),
            resources(2, 4),
            ["worker-0 was within 5% of its memory limit: 3.9 GiB of 4.0 GiB."],
        ),
        (used((2, 4.0)), resources(2, 4), ["worker-0 reached its memory limit: 4.0 GiB of 4.0 GiB."]),
        (used((2, 3.7)), resources(2, 4), []),
        (
            used(*[(2, 3.8 + index / 100) for index in range(9)]),
            resources(2, 4),
            [
                "worker-8 was within 5% of its memory limit: 3.9 GiB of 4.0 GiB.",
                "worker-7 was within 5% of its memory limit: 3.9 GiB of 4.0 GiB.",
                "worker-6 was within 5% of its memory limit: 3.9 GiB of 4.0 GiB.",
                "5 more of worker were within 5% of their memory limit.",
            ],
        ),
        (used((0.1, 0.1), seconds=59.0), resources(2, 4), []),
        (
            used((0.1, 3.9), seconds=5.0),
            resources(2, 4),
            ["worker-0 was within 5% of its memory limit: 3.9 GiB of 4.0 GiB."],
        ),
        (used((0.1, 0.1)), resources(), []),
        (used((None, None)), resources(2, 4), []),
    ],
)
def test_what_is_notable(usages, request_, expected):
    assert list(sentences(usages, request_)) == expected


def sampled(attempt, names, count=50, container="", **more):
    writer = UsageWriter(attempt.usage)
    random.seed(1)
    for step in range(count):
        writer.write(
            [
                Sample(
                    at=START + 5 * step,
                    window=5.0,
                    replica=name,
                    container=container,
                    cpu=round(random.random(), 3),
                    memory=(100 + step) << 20,
                    **more,
                )
                for name in names
            ]
        )


def section(page):
    return page.partition('id="section-usage"')[2].partition("<section")[0]


JOB = """{name: two, command: [c], roles: {chief: {},
    worker: {replicas: 2, resources: {cpu: 1, memory: 1Gi, limits: {cpu: 3}}}}, resources: {cpu: 4, memory: 1Gi}}"""


def test_a_chart_of_each_role_with_its_request_and_limit():
    attempt, status = attempt_of(JOB, State.SUCCEEDED)
    attempt.write(status)
    sampled(attempt, ["chief-0", "worker-0", "worker-1"])
    part = section(page_of(attempt))
    titles = re.findall(r"<figcaption>([^<]*)", part)
    assert titles == ["CPU of chief", "Memory of chief", "CPU of worker", "Memory of worker"]
    bounds = [re.findall(r'end">(re[^<]*|limit)<', figure) for figure in part.split("<figure")[1:]]
    assert bounds == [["request = limit"], ["request = limit"], ["request", "limit"], ["request = limit"]]
    assert "chief-0 used at most 0.96 of 4 requested cores." in part
    assert part.count('class="curve ') == 6
    assert "GiB, min since creation" in part
    cells = re.findall("<td>([^<]*)</td>", part)
    memory = ["124 MiB", "149 MiB", "1.0 GiB", "1.0 GiB"]
    assert cells == ["chief", "1", "0.46", "0.96", "4", "4", *memory, "worker", "2", "0.5", "0.99", "1", "3", *memory]


def test_many_replicas_are_drawn_by_their_peaks_and_the_rest_counted():
    attempt, status = attempt_of("{name: wide, command: [c], roles: {worker: {replicas: 60}}}", State.SUCCEEDED)
    attempt.write(status)
    sampled(attempt, [f"worker-{index}" for index in range(60)])
    page = page_of(attempt)
    part = section(page)
    assert part.count('class="curve ') == 16
    assert part.count("52 more replicas with lower peaks not drawn.") == 2
    assert len(part) < 100_000


def test_a_sidecar_is_in_the_table_alone():
    attempt, status = attempt_of(JOB, State.SUCCEEDED)
    attempt.write(status)
    sampled(attempt, ["worker-0"])
    sampled(attempt, ["worker-0"], container="istio-proxy")
    part = section(page_of(attempt))
    assert part.count("<figure") == 2
    assert "worker · istio-proxy" in part


def test_gpus_are_drawn_where_they_are_known():
    attempt, status = attempt_of("{name: g, command: [c], roles: {worker: {resources: {gpu: 2}}}}", State.SUCCEEDED)
    attempt.write(status)
    sampled(attempt, ["worker-0"], gpu=0.5)
    part = section(page_of(attempt))
    assert "GPU of worker" in part
    assert "worker-0 used at most 0.5 of 2 requested GPUs." in part


def test_a_report_says_why_there_are_no_samples():
    attempt, status = attempt_of(JOB, State.SUCCEEDED)
    attempt.write(status)
    UsageWriter(attempt.usage).write([], "CPU and memory over time are not known: no metrics.")
    part = section(page_of(attempt))
    assert "not known: no metrics." in part
    assert "<figure" not in part


@pytest.mark.parametrize("make", ["succeeded", "failed", "never_started", "many"])
def test_a_report_without_samples_has_no_such_part(make):
    assert "CPU and memory" not in page_of(getattr(finished, make)())


def test_samples_are_drawn_without_a_job_description_and_stay_text():
    attempt, status = attempt_of(JOB, State.SUCCEEDED)
    attempt.write(status)
    (attempt.folder / "job.json").write_text("{")
    sampled(attempt, ["worker-0"], count=1)
    with attempt.usage.open("ab") as file:
        odd = Sample(at=-5.0, window=0.0, replica=EVIL, container="", cpu=1e9, memory=1 << 60)
        file.write(msgspec.json.encode(odd) + b"\n" + msgspec.json.encode(msgspec.structs.replace(odd, container=EVIL)))
    page = page_of(attempt)
    assert not [tag for tag, _ in Reader(page).tags if tag == "img"]
    assert "nan" not in section(page).lower()


def test_one_sample_of_nothing_is_drawn():
    attempt, status = attempt_of("{name: one, command: [c], roles: {worker: {}}}", State.SUCCEEDED)
    attempt.write(status)
    UsageWriter(attempt.usage).write([Sample(at=START, window=1.0, replica="worker-0", cpu=0.0, memory=0)])
    assert section(page_of(attempt)).count("<circle") == 2
