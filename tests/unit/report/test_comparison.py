"""Comparisons of runs: what differs, shared charts, and a page that is one harmless file."""

import re

import msgspec
import pytest

from tests.support import finished
from tests.support.event_writer import ScalarWriter
from tests.unit.report.test_html import Reader
from tests.unit.report.test_page import EVIL, check_policy
from tfsteps.report import comparison, curves
from tfsteps.report.comparison import Compared
from tfsteps.report.comparison_page import page
from tfsteps.report.curves import Chart, Charts, Curve, Point
from tfsteps.runs.identity import Identity
from tfsteps.runs.inputs import flatten
from tfsteps.runs.status import Incarnation, ReplicaStatus, Status
from tfsteps.tensorboard.event_curves import EventCurves


def run(name, inputs=None, charts=None, **more):
    status = Status(identity=Identity(run=name, task="mnist"), job="mnist", system="local", **more)
    return Compared(status, inputs, charts)


def line(folder="train", points=3):
    values = [Point(step, float(step % 7)) for step in range(points)]
    return Curve(run=folder, points=values, last=values[-1])


def test_values_are_flattened_to_paths():
    job = {"a": 1, "b": {"c": [1, {"d": None}], "e.f": "x"}, "empty": {}}
    assert dict(flatten(job)) == {"a": 1, "b.c.0": 1, "b.c.1.d": None, 'b."e.f"': "x"}


def test_only_inputs_that_differ_are_shown():
    runs = [run("a", {"same": 1, "n": 3, "only": "x", "null": None}), run("b", {"same": 1, "n": "3"}), run("c")]
    assert comparison.differences(runs) == {"n": [3, "3", None], "only": ["x", None, None]}
    rows = [(row.name, row.values) for row in comparison.input_rows(runs, 40)]
    assert rows == [("n", ["3", '"3"', None]), ("only", ["x", None, None])]


@pytest.mark.parametrize("at", [0, 10, 50, 95, 99])
def test_a_long_value_is_cut_around_the_first_difference(at):
    text = "abcdefghij" * 10
    runs = [run("a", {"x": text}), run("b", {"x": f"{text[:at]}#{text[at + 1 :]}"})]
    ((one, two),) = [row.values for row in comparison.input_rows(runs, 30)]
    assert max(len(one), len(two)) <= 30
    assert "#" in two
    assert one != two


def test_line_breaks_stay_on_their_row():
    ((one, _),) = [row.values for row in comparison.input_rows([run("a", {"x": "1\n2"}), run("b", {"x": "1"})], 30)]
    assert one == "1\\n2"


def test_runs_share_a_chart_for_each_tag_and_folder():
    one = Charts(charts=[Chart(tag="loss", curves=[line("eval"), line("train")]), Chart(tag="a", curves=[line(".")])])
    two = Charts(charts=[Chart(tag="loss", curves=[line("train")])], more=["b"], cut=True)
    overlay = curves.overlay({"one": one, "two": two}, ["train/loss"])
    assert [(chart.tag, [curve.run for curve in chart.curves]) for chart in overlay.charts] == [
        ("train/loss", ["one", "two"]),
        ("a", ["one"]),
        ("eval/loss", ["one"]),
    ]
    assert (overlay.more, overlay.cut) == (["b"], True)


def test_a_comparison_holds_only_so_much():
    charts = Charts(charts=[Chart(tag=f"tag{i:02}", curves=[line(points=1000)]) for i in range(60)])
    overlay = curves.overlay({f"run{i:02}": charts for i in range(20)})
    assert (len(overlay.charts), len(overlay.more)) == (40, 20)
    assert {(len(chart.curves), chart.more) for chart in overlay.charts} == {(12, 8)}
    assert sum(len(curve.points) for chart in overlay.charts for curve in chart.curves) <= 40 * 12 * 20


def test_the_page_has_all_runs_and_their_curves():
    one, two = compared_pair()
    read = Reader(text := page([one, two]))
    for part in ("2 runs compared", "Succeeded", "Failed", "BackoffLimitExceeded", "0.0934", "412 MiB", "train/loss"):
        assert part in read.text
    assert "hunter2" not in text
    assert len([a for tag, a in read.tags if tag == "g" and a.get("class", "").startswith("curve c")]) == 10
    assert "All recorded inputs are the same." in read.text


def compared_pair():
    """Return two attempts with event files, of runs `one` and `two`."""
    pair = []
    for name, make in (("one", finished.succeeded), ("two", finished.failed)):
        attempt = make()
        status = attempt.status()
        status.identity = msgspec.structs.replace(status.identity, run=name)
        pair.append(Compared.of(status, attempt))
        attempt.folder.parents[1].rename(attempt.folder.parents[2] / name)
    return pair


def test_the_page_is_one_file_that_needs_nothing_else():
    text = page(compared_pair())
    check_policy(text)
    read = Reader(text)
    for name, attrs in read.tags:
        assert not {"src", "srcset", "action"} & attrs.keys()
        if "href" in attrs:
            assert name in ("a", "link", "use")
            assert attrs["href"].startswith(("#", "data:"))
    ids = [attrs["id"] for _, attrs in read.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {a["href"][1:] for _, a in read.tags if a.get("href", "").startswith("#")} <= set(ids)
    assert len(text) < 500_000


def test_what_comes_from_outside_stays_text(tmp_path):
    with ScalarWriter(tmp_path / "<img src=x>") as writer:
        writer.scalar(EVIL, 0.5, 1)
    charts = curves.gather(EventCurves.read(tmp_path))
    runs = [
        msgspec.structs.replace(
            run(EVIL + str(i), {EVIL: str(i)}, charts, reason=EVIL, metrics={EVIL: 1.0}), notes=[EVIL]
        )
        for i in range(2)
    ]
    text = page(runs)
    read = Reader(text)
    assert not [tag for tag, _ in read.tags if tag in ("img", "iframe", "object")]
    assert [a.get("type") for tag, a in read.tags if tag == "script"] == ["application/json", None]
    assert read.text.count("<img src=x onerror=alert(1)>") > 10
    assert not set(text) & {"\x00", "\x1b", "\u202e"}


def test_runs_of_which_little_is_known_have_a_page():
    read = Reader(page([run("a", {"x": 1}), run("b"), run("c")]))
    assert "Inputs are not compared: they are recorded of fewer than two runs." in read.text
    assert "No scalars of these runs can be read." in read.text
    assert re.search("Recorded of 2 of 3 runs", Reader(page([run("a", {}), run("b", {}), run("c")])).text)


def test_options_have_their_names_wherever_they_stand():
    words = ["train.py", "--lr", "0.1", "--epochs=3", "-v", "--decay", "-0.5", "data", "--tag", "a", "--tag", "b"]
    assert dict(flatten({"args": words, "roles": {"worker": {"args": ["--lr", "1"]}}})) == {
        "args.0": "train.py",
        "args.7": "data",
        "args --lr": "0.1",
        "args --epochs": "3",
        "args -v": True,
        "args --decay": "-0.5",
        "args --tag": ["a", "b"],
        "roles.worker.args --lr": "1",
    }


def ran(name, digit, inputs):
    image = f"acme/mnist@sha256:{digit * 64}" if digit else ""
    replica = ReplicaStatus(role="worker", index=0, incarnations=[Incarnation(started=1, image=image)])
    return run(name, inputs, replicas=[replica])


def test_a_tag_that_was_moved_is_said():
    tag, other = {"image": "acme/mnist:1.4"}, {"image": "x", "roles.worker.image": "acme/mnist:1.5"}
    (sentence,) = comparison.moved_tags([ran("one", "a", tag), ran("two", "b", tag), ran("not known", "", tag)])
    assert "The tag acme/mnist:1.4 of worker is not the same image in all runs: one ran acme/mnist@sha" in sentence
    assert "not known ran" not in sentence
    for pair in (("a", tag, "a", tag), ("a", tag, "b", other), ("a", tag, "", tag), ("a", None, "b", None)):
        one, two = ran("one", *pair[:2]), ran("two", *pair[2:])
        assert comparison.moved_tags([one, two]) == []
    assert sentence in page([ran("one", "a", tag), ran("two", "b", tag)])
    rows = {row.name: row.values for row in comparison.facts([ran("one", "a", tag), ran("two", "", tag)])}
    assert rows["image"] == ["acme/mnist@sha256:aaaaaaaaaaaa", None]
