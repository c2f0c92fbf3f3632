"""Which steps a finalizer looks after, by the names of their nodes: as Argo makes them."""

import pytest

from tfsteps.engines.argo.node_names import hooked, lies_within, scope, step_name, tries, without_groups

IN_KUBEFLOW = "ok-fkfq7.root.for-loop-2.iteration-iterations(0:0).iteration-item"


@pytest.mark.parametrize(
    ("job", "finalizer", "expected"),
    [
        ("wf.train", "wf.cleanup", "wf"),
        ("wf[0].train", "wf[1].cleanup", "wf"),
        ("wf[0].inner[1].train", "wf[0].inner[2].cleanup", "wf[0].inner"),
        ("wf.train(0:rate:0.01,seed:1)", "wf.train(1:rate:0.1,seed:1)", "wf"),
        ("wf.loop(0:rate:0.01).train", "wf.loop(0:rate:0.01).cleanup", "wf.loop(0:rate:0.01)"),
        ("wf.loop(0:a)b.c).executor", "wf.loop(0:a)b.c).cleanup", "wf.loop(0:a)b.c)"),
        ("wf", "wf", ""),
    ],
)
def test_the_steps_of_one_scope(job, finalizer, expected):
    assert scope(job) == scope(finalizer) == expected


def test_what_does_not_belong_together():
    nodes = ["wf.train", "wf.inner.train", "wf.loop(0:a).train", "wf.loop(1:a).train", "wf2.train"]
    assert len({scope(node) for node in nodes}) == len(nodes)


@pytest.mark.parametrize(
    ("finalizer", "expected"),
    [
        ("ok.root.train.onExit.cleanup.executor", "ok.root.train"),  # observed on Kubeflow Pipelines 2.15
        ("ok.root.exit-handler-1.onExit.cleanup.executor", "ok.root.exit-handler-1"),
        (f"{IN_KUBEFLOW}.train.onExit.cleanup.executor", f"{IN_KUBEFLOW}.train"),
        ("ok.root.exit-handler-1.onExit.tidy.cleanup.executor", "ok.root.exit-handler-1"),
        ("wf.onExit", "wf"),
        ("wf[1].onExit.cleanup", "wf[1]"),
        ("wf.main.fit(0:a.onExit.b).onExit", "wf.main.fit(0:a.onExit.b)"),
        ("wf[0].inner.onExit", "wf[0].inner"),
        ("ok.root.cleanup.executor", ""),
        ("wf.main.fit(0:a.onExit.b)", ""),
        ("", ""),
    ],
)
def test_the_node_whose_end_a_finalizer_waited_for(finalizer, expected):
    assert hooked(finalizer) == expected


@pytest.mark.parametrize(
    ("step", "node", "expected"),
    [
        ("ok.root.train.executor", "ok.root.train", True),
        ("ok.root.train-2.executor", "ok.root.train", False),
        ("ok.root.exit-handler-1.for-loop-1.iteration-item(0:0).in.train.executor", "ok.root.exit-handler-1", True),
        ("wf[0].fit", "wf", True),
        ("wf.inner(0).fit", "wf.inner", True),
        ("wf.inner", "wf.inner", True),
        ("wf2.fit", "wf", False),
        ("", "wf", False),
    ],
)
def test_what_lies_below_a_node(step, node, expected):
    assert lies_within(step, node) is expected


TRIES = {
    "wf": [],
    "wf.fit(0:a)": [],
    "wf.fit(12)": [("wf.fit(12)", 12)],
    "wf(0)[1].fit(3)": [("wf(0)[1].fit(3)", 3), ("wf(0)", 0)],
    "wf(0).each(0:0)(1).fit": [("wf(0).each(0:0)(1)", 1), ("wf(0)", 0)],
}


@pytest.mark.parametrize(("node", "expected"), TRIES.items())
def test_the_tries_that_a_node_is_of(node, expected):
    assert [*tries(node)] == expected


def test_a_name_without_tries_and_groups():
    assert without_groups(step_name("wf(0)[1].inner(2)[0].fit(0:a)(3)")) == "wf.inner.fit(0:a)"
