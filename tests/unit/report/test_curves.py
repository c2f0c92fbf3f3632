"""Curves: what is drawn keeps what matters, and any numbers can be drawn."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.event_writer import ScalarWriter
from tfsteps.report import charts, curves
from tfsteps.report.curves import Chart, Curve, Point
from tfsteps.tensorboard import event_curves
from tfsteps.tensorboard.event_curves import EventCurves


def write(folder, points, tag="loss"):
    with ScalarWriter(folder) as writer:
        for at, (step, value) in enumerate(points):
            writer.scalar(tag, value, step, wall_time=100.0 + at)


def gather(folder, preferred=(), **limit):
    return curves.gather(EventCurves.read(folder, **limit), preferred)


def test_runs_of_one_tag_share_a_chart(tmp_path):
    write(tmp_path / "train", [(1, 0.5), (2, 0.25)])
    write(tmp_path / "eval", [(2, 0.75)])
    write(tmp_path, [(1, 1.0)], tag="accuracy")
    charts = gather(tmp_path)
    assert [(c.tag, [(r.run, r.points) for r in c.curves]) for c in charts.charts] == [
        ("accuracy", [(".", [(1, 1.0)])]),
        ("loss", [("eval", [(2, 0.75)]), ("train", [(1, 0.5), (2, 0.25)])]),
    ]


def test_wanted_tags_come_first(tmp_path):
    for tag in ("a", "b", "c", "d/e"):
        write(tmp_path / "train", [(1, 0.5)], tag)
    assert [chart.tag for chart in gather(tmp_path, ["train/c", "d/e"]).charts] == ["c", "d/e", "a", "b"]


def test_steps_repeated_after_a_restart_count_once(tmp_path):
    write(tmp_path, [(1, 1.0), (2, 2.0), (3, 3.0), (2, 20.0), (3, 30.0), (4, 40.0)])
    (curve,) = gather(tmp_path).charts[0].curves
    assert curve.points == [(1, 1.0), (2, 20.0), (3, 30.0), (4, 40.0)]
    assert curve.last == (4, 40.0)


def test_values_that_are_not_finite_are_counted_not_drawn(tmp_path):
    write(tmp_path, [(1, 0.5), (2, math.nan), (3, -math.inf)])
    (curve,) = gather(tmp_path).charts[0].curves
    assert (curve.points, curve.bad, curve.first_bad) == ([(1, 0.5)], 2, 2)
    assert math.isinf(curve.last.value)
    assert "2 values not finite, first at step 2" in charts.figure(gather(tmp_path).charts[0], 0, ["."])


@given(
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=300),
    limit=st.integers(4, 50),
)
def test_thinning_keeps_the_extremes_and_the_ends(values, limit):
    points = [Point(step, value) for step, value in enumerate(values)]
    thinned = curves.thin(points, limit)
    assert len(thinned) <= max(limit, 4)
    assert thinned == sorted(set(thinned) & set(points))
    assert {points[0], points[-1]} <= set(thinned)
    assert {min(values), max(values)} <= {point.value for point in thinned}


def test_a_page_holds_only_so_much(tmp_path):
    for tag in range(60):
        write(tmp_path / "run", [(step, step % 7) for step in range(100)], f"tag{tag:02}")
    for run in range(20):
        write(tmp_path / f"run{run}", [(1, 1.0)], "tag00")
    charts = gather(tmp_path)
    assert (len(charts.charts), len(charts.more), len(charts.charts[0].curves), charts.charts[0].more) == (
        40,
        20,
        12,
        9,
    )
    assert sum(len(curve.points) for chart in charts.charts for curve in chart.curves) <= 8000


def test_memory_is_bounded_while_reading(tmp_path, monkeypatch):
    monkeypatch.setattr(event_curves, "_CROWDED", 100)
    write(tmp_path, [(step, 1000.0 if step == 333 else step) for step in range(900)])
    (curve,) = gather(tmp_path).charts[0].curves
    assert len(curve.points) <= 100
    assert Point(333, 1000.0) in curve.points
    assert curve.points[-1] == curve.last == (899, 899.0)


def test_files_too_long_are_cut_and_marked(tmp_path, monkeypatch):
    monkeypatch.setattr(event_curves, "_CHUNK", 500)
    write(tmp_path, [(step, step) for step in range(900)])
    assert not gather(tmp_path).cut
    cut = gather(tmp_path, limit=1000)
    assert cut.cut
    assert 1000 / 60 < len(cut.charts[0].curves[0].points) < 100


def test_no_folder(tmp_path):
    assert gather(tmp_path / "none") == curves.Charts()


def chart(*values):
    points = [Point(step, value) for step, value in values]
    return Chart(tag="loss", curves=[Curve(run=".", points=points, last=points[-1] if points else Point(0, math.nan))])


@given(
    st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False)), max_size=8)
)
def test_any_numbers_can_be_drawn(values):
    drawn = charts.figure(chart(*sorted(values)), 0, ["."])
    assert "nan," not in drawn
    assert "inf," not in drawn
    assert drawn.count("<line") <= 10


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 10, [0, 2, 4, 6, 8, 10]),
        (0.08, 2.2, [0.5, 1, 1.5, 2]),
        (-1, 1, [-1, -0.5, 0, 0.5, 1]),
        (0, 3e9, [0, 1e9, 2e9, 3e9]),
        (0, 5e-324, []),
    ],
)
def test_ticks_are_round(low, high, ticks):
    assert charts.Scale(low, high, 0, 100).ticks() == ticks


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, "0"), (-0.0, "0"), (0.125, "0.125"), (9999, "9999"), (12_000, "12k"), (2.5e6, "2.5M"), (1.2e-5, "1.2e-05")],
)
def test_labels(value, expected):
    assert charts.label(value) == expected
