"""`tfsteps runs`: for people, and for programs."""

import datetime as dt
import json
import re
import time
import urllib.parse

import msgspec
import pytest

from tests.unit.cli.command import output_lines, refused, tfsteps
from tests.unit.cli.statuses import saved
from tfsteps.console.text import iso
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.runs.pipeline_record import PipelineRecord
from tfsteps.spec import from_plain

LONG = "a-name-" * 30


def test_runs_are_listed_newest_first_with_their_attempts():
    now = time.time()
    saved(run="old", state=State.SUCCEEDED, created=now - 7200, ended=now - 7200 + 75)
    saved(run="new", attempt=0, state=State.FAILED, created=now - 600, ended=now - 590)
    _, lock = saved(run="new", attempt=1, created=now - 300, hold=True)
    with lock:
        rows = [line.split() for line in output_lines("runs")]
    assert rows[0] == ["RUN", "TASK", "ATTEMPT", "STATE", "SYSTEM", "AGE", "DURATION"]
    assert [(row[0], row[2], row[3]) for row in rows[1:]] == [
        ("new", "1", "running"),
        ("new", "0", "failed"),
        ("old", "0", "succeeded"),
    ]
    assert (rows[2][6], rows[3][6]) == ("10s", "1m15s")
    assert rows[1][6].startswith("5m")


def test_a_run_whose_launcher_was_killed_is_lost_and_its_clock_stands_still():
    saved(created=time.time() - 300)
    assert re.fullmatch(r"lost 5m\d*s?", " ".join(output_lines("runs")[1].split()[3::3]))


def test_runs_as_json():
    saved(state=State.SUCCEEDED, created=1_795_000_000.25)
    (run,) = json.loads("".join(output_lines("runs", "--output", "json")))
    assert (run["run"], run["task"], run["attempt"], run["state"]) == ("r1", "mnist", 0, "succeeded")
    assert run["created"] == iso(1_795_000_000.25)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.250[+-]\d\d:\d\d", run["created"])


def test_that_there_are_no_runs_is_printed_on_standard_error(home):
    assert tfsteps("runs") == (0, "", f"There are no runs in {home}; `tfsteps init` writes a first job.\n")
    assert output_lines("runs", "--output", "json") == ["[]"]


def test_names_of_200_characters_stay_whole_where_no_terminal_is():
    saved(run=LONG, task=LONG, state=State.SUCCEEDED)
    assert output_lines("runs")[1].split()[:3] == [LONG, LONG, "0"]
    assert output_lines("show", LONG)[0].split()[1] == LONG


@pytest.fixture
def four_runs():
    """Four runs, and a pipeline that failed before its first job."""
    now = time.time()
    ended = {"created": now - 7200, "ended": now - 7100}
    nightly = Identity(run="r1", task="train", pipeline="nightly")
    saved(identity=nightly, run="r1", task="train", state=State.SUCCEEDED, metrics={"loss": 0.5}, **ended)
    saved(run="r2", state=State.FAILED, created=now - 600, ended=now - 590, metrics={"loss": 0.25})
    saved(run="r3", state=State.SUCCEEDED, created=now - 500, ended=now - 300, metrics={"loss": 2.0, "auc": 0.75})
    saved(run="r4", task="mnist", state=State.CANCELLED, created=now - 400, ended=now - 399)
    PipelineRecord(
        run="r5",
        pipeline="nightly",
        engine="local",
        state=State.FAILED,
        message="no\x1b[2J",
        created=now - 5,
        ended=now - 3,
    ).write()


def listed(*options):
    """Return the ids of the listed runs; the table and JSON list the same."""
    header, *rows = [line.split() for line in output_lines("runs", *options)]
    ids = [row[header.index("RUN")] for row in rows]
    assert [run["run"] for run in json.loads("".join(output_lines("runs", *options, "--output", "json")))] == ids
    return ids


@pytest.mark.usefixtures("four_runs")
@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ((), ["r5", "r4", "r3", "r2", "r1"]),
        (("--state", "failed"), ["r5", "r2"]),
        (("--state", "failed", "--state", "cancelled"), ["r5", "r4", "r2"]),
        (("--task", "train"), ["r1"]),
        (("--pipeline", "nightly"), ["r5", "r1"]),
        (("--since", "1h"), ["r5", "r4", "r3", "r2"]),
        (("--since", "8m"), ["r5", "r4"]),
        (("--since", time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() - 3600))), ["r5", "r4", "r3", "r2"]),
        (("--since", dt.datetime.fromtimestamp(time.time() - 3600, dt.UTC).isoformat()), ["r5", "r4", "r3", "r2"]),
        (("--limit", "2"), ["r5", "r4"]),
        (("--sort", "duration"), ["r3", "r1", "r2", "r5", "r4"]),
        (("--sort", "task"), ["r4", "r3", "r2", "r1", "r5"]),
        (("--sort", "loss"), ["r3", "r1", "r2", "r5", "r4"]),
        (("--sort", "auc"), ["r3", "r5", "r4", "r2", "r1"]),
        (("--sort", "loss", "--limit", "1", "--state", "failed"), ["r2"]),
    ],
)
def test_runs_are_filtered_and_sorted(options, ids):
    assert listed(*options) == ids


@pytest.mark.usefixtures("four_runs")
def test_metrics_are_columns():
    header, *rows = [
        line.split() for line in output_lines("runs", "--metric", "loss", "--metric", "auc", "--metric", "loss")
    ]
    assert header[-2:] == ["loss", "auc"]
    assert [row[-2:] for row in rows] == [["-", "-"], ["-", "-"], ["2", "0.75"], ["0.25", "-"], ["0.5", "-"]]
    runs = json.loads("".join(output_lines("runs", "--metric", "auc", "--output", "json")))
    assert [run["metrics"] for run in runs] == [{"auc": value} for value in (None, None, 0.75, None, None)]
    assert json.loads("".join(output_lines("runs", "r3", "--output", "json")))[0]["metrics"] == {
        "loss": 2.0,
        "auc": 0.75,
    }
    _, _, err = tfsteps("runs", "--metric", "lss")
    assert err == "warning: none of these runs has a metric 'lss'; they have auc, loss\n"


@pytest.mark.usefixtures("four_runs")
def test_a_pipeline_without_jobs_is_listed():
    header, row = [line.split() for line in output_lines("runs", "r5")]
    assert header[:5] == ["RUN", "PIPELINE", "TASK", "ATTEMPT", "STATE"]
    assert row[:6] == ["r5", "nightly", "-", "-", "failed", "-"]
    assert row[-1] == "2s"
    (run,) = json.loads("".join(output_lines("runs", "--limit", "1", "--output", "json")))
    assert (run["task"], run["attempt"], run["pipeline"], run["state"]) == ("", None, "nightly", "failed")
    assert (run["system"], run["engine"]) == (None, "local")


@pytest.mark.usefixtures("four_runs")
@pytest.mark.parametrize(
    ("options", "answer"),
    [
        (
            ("--state", "done"),
            "--state 'done' is unknown: use one of " + ", ".join(State),
        ),
        (
            ("--since", "yesterday"),
            "--since 'yesterday' is not a time: write a duration, 2h or 1d12h, or a time, 2026-11-21T07:30",
        ),
        (
            ("--sort", "lss"),
            "--sort 'lss' is unknown: use created, duration, task, or the name of a metric (auc, loss)",
        ),
    ],
)
def test_a_wrong_filter_is_refused(options, answer):
    assert refused("runs", *options) == f"error: {answer}\n"


@pytest.mark.usefixtures("four_runs")
def test_that_no_run_matches_is_printed_on_standard_error(home):
    answer = f"No run in {home} matches these options; `tfsteps runs` without filters lists all.\n"
    assert tfsteps("runs", "--task", "no") == (0, "", answer)
    assert output_lines("runs", "--task", "no", "--output", "json") == ["[]"]


def labelled(run, labels):
    attempt = saved(run=run, state=State.SUCCEEDED)
    (attempt.folder / "job.json").write_text(json.dumps({"name": "mnist", "labels": labels}))


def test_runs_are_filtered_by_the_labels_of_their_recorded_jobs():
    labelled("r1", {"team": "vision", "acme.example/cost": "12"})
    labelled("r2", {"team": "vision"})
    labelled("r3", {"team": "text"})
    saved(run="r4", state=State.SUCCEEDED)
    damaged = saved(run="r5", state=State.SUCCEEDED)
    (damaged.folder / "job.json").write_text("{")
    PipelineRecord(run="r6", pipeline="nightly", state=State.FAILED, created=1, ended=2).write()
    assert sorted(listed("--label", "team=vision")) == ["r1", "r2"]
    assert listed("--label", "team=vision", "--label", "acme.example/cost=12") == ["r1"]
    assert listed("--label", "tfsteps.dev/run-id=r5") == ["r5"]
    assert [line.split()[0] for line in output_lines("runs", "r1", "--label", "team=vision")] == ["RUN", "r1"]
    code, out, err = tfsteps("runs", "--label", "team=audio")
    assert (code, out) == (0, "")
    assert err.startswith("No run in ")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["team"], "--label 'team' is not a label: write KEY=VALUE, such as team=vision"),
        (["team=a,b"], "--label 'team=a,b' is not a label: write KEY=VALUE"),
        (["=a"], "--label '=a' is not a label"),
        (["team=" + "a" * 64], "is not a label: write KEY=VALUE"),
        (["team=a", "team=b"], "--label team is given twice, as 'a' and 'b'; no job has both"),
    ],
)
def test_a_label_that_cannot_be_one_is_refused(labels, message):
    assert message in refused("runs", *(word for label in labels for word in ("--label", label)))


def links(page):
    """Return where the page leads, by the run."""
    return {run: address for address, run in re.findall(r'<th scope="row"><a href="([^"]*)">([^<]*)', page.read_text())}


@pytest.mark.usefixtures("four_runs")
def test_a_page_has_the_listed_runs(tmp_path):
    page = tmp_path / "page.html"
    assert output_lines("runs", "--html", page, "--pipeline", "nightly") == [str(page)]
    text = page.read_text()
    assert [run for run in ("r1", "r2", "r5") if f'<th scope="row">{run}</th>' in text] == ["r1", "r5"]
    assert "\x1b" not in text
    [run, *_] = json.loads("".join(output_lines("runs", "--html", page, "--metric", "auc", "--output", "json")))
    assert run["run"] == "r5"
    heads = re.findall(r'<th scope="col"[^>]*>([^<]*)', page.read_text())
    assert "auc" in heads
    assert "loss" not in heads
    assert {"Namespace", "Object", "Code"}.isdisjoint(heads), "columns that would be empty"


def test_a_page_leads_to_reports_from_where_it_is(home, tmp_path):
    attempt = saved(run="a run/of ünusual = names", state=State.SUCCEEDED)
    attempt.report.write_text("whole")
    PipelineRecord(run="p", pipeline="nightly", state=State.SUCCEEDED, created=1.0, ended=2.0).write()
    (home / "runs/p/report.html").write_text("of the pipeline")
    for page in (tmp_path / "page.html", home / "runs.html"):
        output_lines("runs", "--html", page)
        assert not any(address.startswith("/") for address in links(page).values())
        pages = {run: page.parent / urllib.parse.unquote(address) for run, address in links(page).items()}
        assert {run: file.read_text() for run, file in pages.items()} == {
            "a run/of ünusual = names": "whole",
            "p": "of the pipeline",
        }


def test_a_page_has_the_options_that_differ(tmp_path):
    page = tmp_path / "page.html"
    for run, rate in (("one", "0.1"), ("two", "0.01")):
        attempt = saved(run=run, state=State.SUCCEEDED)
        args = ["--lr", rate, "--epochs", "3", "--api-key", f"hunter-{run}"]
        job = {"name": "x", "image": "x:1", "command": ["train"], "args": args, "roles": {"worker": {}}}
        (attempt.folder / "job.json").write_bytes(msgspec.json.encode(from_plain(job)))
    output_lines("runs", "--html", page)
    heads = re.findall(r'<th scope="col"[^>]*>([^<]*)', page.read_text())
    assert "args --lr" in heads
    assert "args --epochs" not in heads
    assert "hunter" not in page.read_text()


def test_a_page_that_cannot_be_written(tmp_path):
    saved(state=State.SUCCEEDED)
    assert "cannot be written" in refused("runs", "--html", tmp_path)


def test_a_page_of_no_runs(tmp_path):
    page = tmp_path / "page.html"
    assert output_lines("runs", "--html", page) == [str(page)]
    assert "There are no runs." in page.read_text()
