"""`tfsteps compare`: runs beside each other, what differs, and what is not known."""

import json

import msgspec
import pytest

from tests.support.event_writer import ScalarWriter
from tests.unit.cli.command import output_lines, refused, tfsteps
from tests.unit.cli.jobs_on_cluster import kubeconfig, tfjob
from tests.unit.cli.statuses import saved
from tfsteps import spec
from tfsteps.runs.code import Code
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.runs.pipeline_record import PipelineRecord
from tfsteps.runs.store import AttemptFolder

JOB = """
name: mnist
command: [python, train.py]
args: [--epochs, "{epochs}"]
env: {{BATCH: "64", HUB_TOKEN: "{token}"}}
roles: {{worker: {{replicas: {workers}}}}}
outputs: {{metrics: {{loss: train/loss}}}}
"""


def recorded(run, epochs=3, workers=2, token="a", **more):
    """Write a status, its job.json and a curve, as a launcher does."""
    attempt = saved(run=run, workers=workers, **{"state": State.SUCCEEDED, "logs": "", **more})
    logs = attempt.output / "logs"
    written = attempt.status()
    written.logs = str(logs)
    attempt.write(written)
    job = spec.parse(JOB.format(epochs=epochs, workers=workers, token=token))
    (attempt.folder / "job.json").write_bytes(msgspec.json.encode(job))
    with ScalarWriter(logs / "train") as writer:
        for step in range(5):
            writer.scalar("loss", epochs / (1 + step), step)
    return attempt


def compared(*args):
    """Return the table of a comparison: the values by the name of the row."""
    lines = output_lines("compare", *args)
    table = lines[: lines.index("")] if "" in lines else lines
    start = table[0].index(table[0].split()[1])
    return {line[:start].rstrip(): line[start:].split() for line in table}


def test_runs_are_compared():
    recorded("one", metrics={"loss": 0.5}, created=1e9, ended=1e9 + 75)
    recorded("two", epochs=5, workers=3, metrics={"loss": 0.25, "auc": 0.75}, state=State.FAILED, reason="Backoff")
    table = compared("one", "two")
    assert table["RUN"] == ["one", "two"]
    assert table["state"] == ["succeeded", "failed"]
    assert table["reason"] == ["-", "Backoff"]
    assert table["duration"][0] == "1m15s"
    assert table["replicas"] == ["2", "worker", "3", "worker"]
    assert table["metric loss"] == ["0.5", "0.25"]
    assert table["metric auc"] == ["-", "0.75"]
    assert {name: values for name, values in table.items() if name.startswith("input ")} == {
        "input args --epochs": ["3", "5"],
        "input roles.worker.replicas": ["2", "3"],
    }
    assert "CPU time" not in table


def test_json_has_all_inputs():
    recorded("one", metrics={"loss": 0.5})
    recorded("two", epochs=5, token="b")
    printed = json.loads("".join(output_lines("compare", "one", "two", "--output", "json")))
    assert printed["differences"] == {"args --epochs": ["3", "5"]}
    one, two = printed["runs"]
    assert (one["run"], one["state"], one["metrics"], one["replicas"]) == (
        "one",
        "succeeded",
        {"loss": 0.5},
        {"worker": 2},
    )
    assert one["inputs"]["env.BATCH"] == two["inputs"]["env.BATCH"] == "64"
    assert one["inputs"]["env.HUB_TOKEN"] == "***"
    assert one["duration"] == pytest.approx(61, abs=1)


def test_the_newest_attempt_at_the_newest_shared_task_is_compared():
    recorded("one", task="train", attempt=0, created=10.0)
    recorded("one", task="train", attempt=1, created=20.0)
    recorded("one", task="score", created=30.0)
    recorded("two", task="train", created=40.0)
    table = compared("one", "two")
    assert (table["task"], table["attempt"]) == (["train", "train"], ["1", "0"])
    assert "one: Its other tasks are not compared: score; use --task." in output_lines("compare", "one", "two")
    recorded("two", task="score", created=25.0)
    assert compared("one", "two")["task"] == ["train", "train"]
    assert compared("one", "two", "--task", "score")["task"] == ["score", "score"]
    assert "it has score, train" in refused("compare", "one", "two", "--task", "no")


def test_runs_without_a_shared_task_are_compared_too():
    recorded("one", task="a")
    recorded("two", task="b")
    assert compared("one", "two")["task"] == ["a", "b"]


def test_a_comparison_needs_two_different_runs():
    recorded("one")
    PipelineRecord(run="none", pipeline="p", state=State.FAILED, created=1.0, ended=2.0).write()
    assert refused("compare", "one") == (
        "error: a comparison needs two runs or more, got 'one'; add another, or use `tfsteps show`\n"
    )
    assert refused("compare", "one", "mnist") == "error: 'one' and 'mnist' are both run one; write different runs\n"
    assert refused("compare", "one", "none").startswith("error: run none has no jobs; `tfsteps show none`")
    assert tfsteps("compare")[0] == 2


def test_what_is_not_known_is_said():
    attempt = recorded("one")
    recorded("two")
    assert output_lines("compare", "one", "two")[-1] == "All recorded inputs are the same."
    for run, digest in (("one", "a" * 64), ("two", "b" * 64)):
        written = AttemptFolder.of(Identity(run=run, task="mnist"))
        status = written.status()
        status.code = Code(program="train.py", digest=digest)
        written.write(status)
    assert output_lines("compare", "one", "two")[-1] == "All recorded inputs are the same; the code differs."
    assert '"digest": "' + "b" * 64 in tfsteps("compare", "one", "two", "--output", "json")[1]
    (attempt.folder / "job.json").write_text("{")
    assert output_lines("compare", "one", "two")[-1] == "one: Its inputs are not known: job.json is missing or damaged."


def test_runs_of_a_cluster(monkeypatch, tmp_path):
    here, away = tfjob("here", ("Succeeded", "True", 30)), tfjob("away", ("Failed", "True", 30))
    recorded("here", uid=here["metadata"]["uid"], metrics={"loss": 0.5})
    with kubeconfig(monkeypatch, tmp_path, here, away):
        table = compared("here", "away", "--on", "kubernetes")
        lines = output_lines("compare", "here", "away", "--on", "kubernetes", "--html", tmp_path / "page.html")
    assert table["state"] == ["succeeded", "failed"]
    assert table["metric loss"] == ["0.5", "-"]
    unknown = "It was not launched from this machine: its inputs, metrics and curves are not known here."
    assert f"away: {unknown}" in lines
    assert unknown in (tmp_path / "page.html").read_text()


def test_the_page_is_written(tmp_path):
    recorded("one")
    recorded("two", epochs=5)
    page = tmp_path / "page.html"
    assert output_lines("compare", "one", "two", "--html", page)[-1] == f"page {page}"
    assert "args --epochs" in page.read_text()
    assert json.loads("".join(output_lines("compare", "one", "two", "--html", page, "--output", "json")))["runs"]
    assert "cannot be written: " in refused("compare", "one", "two", "--html", tmp_path / "no" / "page.html")
