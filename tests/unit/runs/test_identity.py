"""Names and labels that are the same every time, and always allowed."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfsteps.runs.identity import Identity, label_value, new_run_id
from tfsteps.spec import SpecError

LABEL = re.compile(r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")


@given(st.text(min_size=1), st.text(min_size=1), st.integers(0, 10**6))
def test_every_label_is_allowed(run, task, attempt):
    for key, value in Identity(run=run, task=task, attempt=attempt, pipeline=run).labels().items():
        assert LABEL.match(value), (key, value)


@pytest.mark.parametrize("limit", [40, 52, 63])
@pytest.mark.parametrize("stem", ["mnist", "a" * 200, "a" * 28 + "-" * 30 + "b"])
def test_job_names_fit_and_are_dns_labels(stem, limit):
    name = Identity(run="r", task="t").job_name(stem, limit)
    assert len(name) <= limit
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name)


def test_names_differ_by_run_task_and_attempt_and_by_nothing_else():
    base = Identity(run="r", task="t", attempt=0, pipeline="p")
    others = [
        Identity(run="r2", task="t"),
        Identity(run="r", task="t2"),
        Identity(run="r", task="t", attempt=1),
        Identity(run="rt", task=""),
    ]
    names = {identity.job_name("x", 63) for identity in (base, *others)}
    assert len(names) == 5
    assert Identity(run="r", task="t").job_name("x", 63) == base.job_name("x", 63)


def test_long_values_that_differ_at_the_end_stay_different():
    assert label_value("a" * 100 + "1") != label_value("a" * 100 + "2")
    assert label_value("run-1.2_x") == "run-1.2_x"


def test_run_ids_are_short_and_different():
    ids = {new_run_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(re.fullmatch(r"[a-p][a-z2-7]{9}", identifier) for identifier in ids)


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("mnist", "mnist-"),
        ("Train & Finalize", "train-finalize-"),
        ("3d_unet", "3d-unet-"),
        ("a" * 19 + "-bcd", "a" * 19 + "-"),
        ("a" * 200, "a" * 20 + "-"),
        ("größe/../x", "gr-e-x-"),
        ("✓", ""),
        ("", ""),
    ],
)
def test_run_ids_begin_with_a_readable_stem(name, stem):
    run = new_run_id(name)
    assert re.fullmatch(rf"{stem}[a-p][a-z2-7]{{9}}", run)
    assert len(run) <= 31
    assert label_value(run) == run, "a label holds it unchanged"


@given(st.text())
def test_every_stem_gives_a_run_id(name):
    run = new_run_id(name)
    assert re.fullmatch(r"([a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?-)?[a-p][a-z2-7]{9}", run)
    assert "--" not in run


def test_the_stem_of_a_job_name_is_found_again():
    assert Identity.stem(Identity(run="r", task="t").job_name("mnist-large", 63)) == "mnist-large"
    assert Identity.stem("mnist-large") == Identity.stem("mnist") == Identity.stem("") == ""


NAMES_THAT_LEAD_AWAY = [
    5,
    ["r"],
    {"a": "b"},
    True,
    "../../x",
    "a/../b",
    "/etc",
    "a//b",
    ".",
    "..",
    "a/.",
    "",
    " ",
    "a\nb",
    "\x1b[2J",
]


@pytest.mark.parametrize("name", NAMES_THAT_LEAD_AWAY)
def test_no_run_or_task_leads_out_of_its_folder(name):
    for run, task in ((name, "t"), ("r", name)):
        with pytest.raises(SpecError, match=r"leads to another folder|printable"):
            Identity.checked(run=run, task=task)


@pytest.mark.parametrize("name", ["r1", "mnist-x7k2[0].train(0:a,b)", "a/b", "...", "Größe ✓"])
def test_names_as_engines_give_them_are_taken(name):
    assert Identity.checked(run=name, task=name).run == name
