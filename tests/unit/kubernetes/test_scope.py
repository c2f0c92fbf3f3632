"""Which steps a finalizer looks after, by the names of their nodes: as Argo and Kubeflow Pipelines make them."""

import pytest

from tfsteps.systems.kubernetes.scope import scope

IN_KUBEFLOW = "ok-fkfq7.root.for-loop-2.iteration-iterations(0:0).iteration-item"


@pytest.mark.parametrize(
    ("job", "finalizer", "expected"),
    [
        ("ok.root.train.executor", "ok.root.cleanup.executor", "ok.root"),
        (f"{IN_KUBEFLOW}.train.executor", f"{IN_KUBEFLOW}.cleanup.executor", IN_KUBEFLOW),
        ("ok.root.inner.train.executor", "ok.root.inner.cleanup.executor", "ok.root.inner"),
        ("ok.root.condition-branches-1.condition-2.train.executor", "ok.root.cleanup.executor", "ok.root"),
        (
            "ok.root.exit-handler-1.train.executor",
            "ok.root.exit-handler-1.onExit.cleanup.executor",
            "ok.root.exit-handler-1",
        ),
    ],
)
def test_kubeflow(job, finalizer, expected):
    assert scope(job, kubeflow=True) == scope(finalizer, kubeflow=True) == expected


@pytest.mark.parametrize(
    ("job", "finalizer", "expected"),
    [
        ("wf.train", "wf.cleanup", "wf"),
        ("wf.train", "wf.onExit", "wf"),
        ("wf.train", "wf.onExit.cleanup", "wf"),
        ("wf[0].train", "wf[1].cleanup", "wf"),
        ("wf[0].inner[1].train", "wf[0].inner[2].cleanup", "wf[0].inner"),
        ("wf.inner(0).train", "wf.inner.onExit", "wf.inner"),
        ("wf.train(0:rate:0.01,seed:1)", "wf.train(1:rate:0.1,seed:1)", "wf"),
        ("wf.loop(0:rate:0.01).train", "wf.loop(0:rate:0.01).cleanup", "wf.loop(0:rate:0.01)"),
        ("wf.loop(0:a)b.c).executor", "wf.loop(0:a)b.c).cleanup", "wf.loop(0:a)b.c)"),
        ("wf", "wf", ""),
    ],
)
def test_argo(job, finalizer, expected):
    assert scope(job, kubeflow=False) == scope(finalizer, kubeflow=False) == expected


def test_what_does_not_belong_together():
    nodes = ["wf.train", "wf.inner.train", "wf.loop(0:a).train", "wf.loop(1:a).train", "wf2.train"]
    assert len({scope(node, kubeflow=False) for node in nodes}) == len(nodes)
