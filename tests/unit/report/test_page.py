"""The report as a file: written from any records, complete, harmless and small."""

import base64
import hashlib
import pathlib
import re

import msgspec
import pytest

from tests.support import finished
from tests.support.event_writer import ScalarWriter
from tests.support.finished import START, attempt_of, changes, log, ran
from tests.support.log_lines import log_line
from tests.unit.report.test_html import Reader
from tfsteps import report
from tfsteps.report.replicas import notable
from tfsteps.runs.events import ReplicaState, State
from tfsteps.runs.log_file import Segment
from tfsteps.runs.status import FailureSummary, ReplicaStatus
from tfsteps.spec import format_bytes

ONE = "{name: one, command: [python, train.py], roles: {worker: {}}}"


def page_of(attempt):
    path = report.write(attempt)
    assert path == attempt.report
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("make", ["succeeded", "failed", "never_started", "many", "served"])
def test_one_file_that_needs_nothing_else(make):
    page = page_of(getattr(finished, make)())
    read = Reader(page)
    assert len(page) < 1_000_000
    for name, attrs in read.tags:
        assert not {"src", "srcset", "action"} & attrs.keys()
        if name != "a" and "href" in attrs:
            assert attrs["href"].startswith(("#", "data:"))
    assert "url(" not in re.sub(r"url\(#arrow\)", "", page)
    ids = [attrs["id"] for _, attrs in read.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    targets = {a["href"][1:] for _, a in read.tags if a.get("href", "").startswith("#")}
    assert targets <= set(ids)


def test_the_policy_allows_this_script_alone():
    check_policy(page_of(finished.succeeded()))


def check_policy(page):
    """Assert that a page allows its own script and no source else."""
    policy = next(a["content"] for _, a in Reader(page).tags if a.get("http-equiv") == "Content-Security-Policy")
    script = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(script) == 1
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    assert policy.startswith("default-src 'none';")
    assert f"script-src 'sha256-{digest}';" in policy


@pytest.mark.parametrize("state", State)
def test_green_means_succeeded(state):
    attempt, status = attempt_of(ONE, state)
    attempt.write(status)
    page = page_of(attempt)
    shown = state if state.terminal else State.LOST  # nobody holds its lock
    read = Reader(page)
    assert [a["class"] for tag, a in read.tags if tag == "header"] == [f"is-{shown}"]
    assert f"<title>{shown.capitalize()}: one · tfsteps</title>" in page
    favicon = next(a["href"] for tag, a in read.tags if tag == "link")
    assert ("1a7f4b" in favicon) == (shown is State.SUCCEEDED)
    style = re.findall(r"([^{}]+)\{ --state: var\(--good\)", page)
    assert [rule.strip() for rule in style] == [".is-succeeded"]


def test_everything_that_is_known_is_there():
    text = Reader(page_of(finished.failed())).text
    for sentence in (
        *("k7c2m9x4qp", "mnist-nightly", "local", "2025-06-15 15:06:40 UTC", "BackoffLimitExceeded", "1m05s"),
        *("ValueError: batch 311 holds <nan>", "train.py:41 in step", "PeerLost", "pid 4712 port 40101", "412 MiB"),
        *("examples_per_second", "0.1555", "step 119  loss", "ghcr.io/acme/mnist:1.4", "/output/logs", "restarting"),
    ):
        assert sentence in text
    assert "\x1b" not in text
    assert "hunter2" not in text


def test_a_model_is_an_output_only_if_there_is_one():
    attempt = finished.succeeded()
    assert "/output/model" not in Reader(page_of(attempt)).text
    folder = pathlib.Path(attempt.status().model)
    folder.mkdir(parents=True)
    (folder / "saved_model.pb").touch()
    assert "/output/model" in Reader(page_of(attempt)).text


def test_the_job_description_has_the_units_of_job_files():
    text = Reader(page_of(finished.succeeded())).text
    assert "memory: 4Gi" in text
    assert "cpu: 2\n" in text


EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'>&\x00\x1b[31m\u202e"


def test_what_comes_from_outside_stays_text():
    attempt, status = attempt_of(ONE, State.FAILED)
    status.identity = msgspec.structs.replace(status.identity, run=EVIL, pipeline=EVIL)
    status.job = status.reason = status.message = status.namespace = status.model = status.output = EVIL
    status.tensorboard_url = "javascript:alert(1)"
    status.warnings, status.metrics = [EVIL], {EVIL: 1.0}
    status.failure = FailureSummary(
        summary=EVIL, replica=EVIL, exit_code=1, meaning=EVIL, exception=EVIL, frame=EVIL, tail=[EVIL]
    )
    ran(status.replicas[0], 0, 1, "failed", 1, EVIL)
    status.transitions = changes((0, "failed"), reason=EVIL, message=EVIL)
    with ScalarWriter(f"{status.logs}/<img src=x>") as writer:
        writer.scalar(EVIL, 0.5, 1)
    log(attempt, (0, "worker-0", EVIL.encode() + b"\xff\xfe\x80" + bytes(range(32)).replace(b"\n", b"")))
    attempt.write(status)
    (attempt.folder / "job.json").write_text(EVIL)
    page = page_of(attempt)
    read = Reader(page)
    assert not [tag for tag, _ in read.tags if tag in ("img", "iframe", "object")]
    assert [a.get("type") for tag, a in read.tags if tag == "script"] == ["application/json", None]
    assert not any(name.startswith("on") for _, attrs in read.tags for name in attrs)
    assert not [a for _, a in read.tags if (a.get("href") or "").startswith("javascript")]
    assert read.text.count("<img src=x onerror=alert(1)>") > 10
    assert not set(page) & {"\x00", "\x1b", "\u202e"}


def test_parts_may_be_missing():
    attempt, status = attempt_of(ONE, State.FAILED)
    (attempt.folder / "job.json").unlink()
    status.logs = ""
    status.replicas.clear()
    attempt.write(status)
    text = Reader(page_of(attempt)).text
    assert "job.json is missing." in text
    assert "Event files were not kept" in text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", "job.json is damaged."),
        (b"\xff\xfe", "job.json is damaged."),
        (b"[1]", "job.json is damaged."),
        (b"[" * 5000, "job.json is damaged."),
        (b'{"name": 1}', "name: 1"),
        (b'{"name": "x", "roles": {}, "new": 1}', "new: 1"),
    ],
)
def test_of_a_job_description_that_cannot_be_read_the_readable_is_shown(raw, text):
    attempt, status = attempt_of(ONE, State.SUCCEEDED)
    (attempt.folder / "job.json").write_bytes(raw)
    attempt.write(status)
    assert text in Reader(page_of(attempt)).text


@pytest.mark.parametrize("at", [0.0, -1e9, 1e18, 1e300])
def test_odd_times_harm_nothing(at):
    attempt, status = attempt_of(ONE, State.FAILED, started=at, ended=at)
    ran(status.replicas[0], 5, -5, "failed", 1)
    status.replicas[0].incarnations[0].ended = at
    status.created = at
    status.transitions = [*changes((0, "pending")), *changes((-10, "failed"))]
    attempt.write(status)
    page_of(attempt)


def test_endless_restarts_are_cut():
    attempt, status = attempt_of(ONE, State.FAILED)
    for start in range(10_000):
        ran(status.replicas[0], start, start + 0.5, "failed", 1)
    status.transitions = changes(*[(i, s) for i in range(10_000) for s in ("running", "restarting")])
    attempt.write(status)
    page = page_of(attempt)
    assert len(page) < 300_000
    assert "9,940 earlier starts not shown." in page


def test_of_too_many_replicas_those_that_failed_are_shown():
    replicas = [ReplicaStatus(role="worker", index=i) for i in range(1000)]
    replicas[999].state = ReplicaState.FAILED
    replicas[998].restarts = 1
    shown = notable(replicas, "worker-0")
    assert len(shown) == 200
    assert [shown[0].name, shown[-2].name, shown[-1].name] == ["worker-0", "worker-998", "worker-999"]
    attempt, status = attempt_of(ONE, State.FAILED)
    status.replicas = replicas
    attempt.write(status)
    page = page_of(attempt)
    assert "800 replicas not shown" in page
    assert len(page) < 500_000


def order(text, *names):
    places = [text.index(name) for name in names]
    return places == sorted(places)


def test_replicas_and_runs_are_in_natural_order():
    job = "{name: one, command: [x], roles: {worker: {replicas: 12}, evaluator: {}}}"
    attempt, status = attempt_of(job, State.SUCCEEDED)
    status.replicas.sort(key=lambda replica: replica.name)
    for folder in ("worker_10", "worker_2"):
        with ScalarWriter(f"{status.logs}/{folder}") as writer:
            writer.scalar("layer_10", 0.5, 1)
            writer.scalar("layer_2", 0.5, 1)
    attempt.write(status)
    read = Reader(page_of(attempt))
    links = [a["href"] for tag, a in read.tags if tag == "a" and "node" in (a.get("class") or "")]
    names = [*[f"worker-{i}" for i in range(12)], "evaluator-0"]
    assert links == [f"#{name}" for name in names]
    panels = [a["id"] for tag, a in read.tags if tag == "details" and a.get("class") == "replica"]
    assert panels == names
    assert order(read.text, "layer_2", "worker_2", "worker_10", "layer_10")


@pytest.mark.parametrize(("replicas", "grouped"), [(8, False), (9, True)])
def test_many_replicas_of_a_role_are_grouped(replicas, grouped):
    job = f"{{name: one, command: [x], roles: {{chief: {{}}, worker: {{replicas: {replicas}}}}}}}"
    attempt, status = attempt_of(job, State.FAILED)
    status.replicas[3].state, status.replicas[4].restarts = ReplicaState.FAILED, 2
    status.failure = FailureSummary(summary="failed", replica="worker-2")
    attempt.write(status)
    read = Reader(page_of(attempt))
    roles = [a for tag, a in read.tags if tag == "details" and a.get("class") == "role"]
    assert roles == ([{"class": "role", "open": None}] if grouped else []), "open, as it has the replica that failed"
    assert (f"worker{replicas} replicas1 failed{replicas - 1} pending2 restarts" in read.text) == grouped


def test_the_page_tells_how_much_of_the_log_it_has():
    attempt = finished.succeeded()
    text, size = Reader(page_of(attempt)).text, format_bytes(attempt.log.stat().st_size)
    assert f"1,510 lines. The whole log, {size}, is {attempt.log}." in text
    log(attempt, *[(90, "chief-0", b"%d" % i) for i in range(1000)])
    text, size = Reader(page_of(attempt)).text, format_bytes(attempt.log.stat().st_size)
    assert f"The page has the last lines of each replica, 1,608 in all. The whole log, {size}, is" in text


def test_a_log_that_reached_its_limit():
    attempt = finished.succeeded()
    segment = Segment.of(attempt.log, 1 << 20, 9000)
    segment.path.write_bytes(log_line(START + 90, "chief-0", b"the end"))
    text = Reader(page_of(attempt)).text
    size = format_bytes(attempt.log.stat().st_size + segment.path.stat().st_size)
    assert f"The whole log, {size}, is {attempt.log} and 1 file beside it." in text
    dropped = "(log incomplete: 9000 lines of all replicas, 1.0 MiB, were dropped"
    assert text.count(dropped) == len(attempt.status().replicas)


def test_a_report_that_cannot_be_written_leaves_nothing_half():
    attempt = finished.never_started()
    attempt.report.mkdir()
    before = sorted(attempt.folder.iterdir())
    with pytest.raises(OSError, match="report"):
        report.write(attempt)
    assert sorted(attempt.folder.iterdir()) == before


def test_no_records():
    attempt, _ = attempt_of(ONE, State.FAILED)
    with pytest.raises(FileNotFoundError):
        report.write(attempt)


def test_a_report_is_replaced_while_the_job_goes_on():
    attempt, status = attempt_of(ONE, State.RUNNING, started=START + 1)
    with attempt.claim():
        ran(status.replicas[0], 0.5, None, "running")
        attempt.write(status)
        assert "Running: one" in page_of(attempt)
        status.state = State.SUCCEEDED
        attempt.write(status)
        assert "Succeeded: one" in page_of(attempt)
