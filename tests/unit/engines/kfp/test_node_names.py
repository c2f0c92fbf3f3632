"""The names of nodes as Kubeflow Pipelines makes them: tasks, and which of them a finalizer looks after."""

import pytest

from tfsteps.engines.kfp.pipeline import scope, task_name

IN_KUBEFLOW = "ok-fkfq7.root.for-loop-2.iteration-iterations(0:0).iteration-item"


@pytest.mark.parametrize(
    ("job", "finalizer", "expected"),
    [
        ("ok.root.train.executor", "ok.root.cleanup.executor", "ok.root"),
        (f"{IN_KUBEFLOW}.train.executor", f"{IN_KUBEFLOW}.cleanup.executor", IN_KUBEFLOW),
        ("ok.root.inner.train.executor", "ok.root.inner.cleanup.executor", "ok.root.inner"),
        ("ok.root.condition-branches-1.condition-2.train.executor", "ok.root.cleanup.executor", "ok.root"),
    ],
)
def test_the_tasks_of_one_scope(job, finalizer, expected):
    assert scope(job) == scope(finalizer) == expected


@pytest.mark.parametrize(
    ("step", "task"),
    [
        ("wf.root.train.executor", "train"),
        ("wf.root.for-loop-1.item(0:a.b).train.executor", "for-loop-1.item(0:a.b).train"),
        ("wf.main.fit", ""),
        ("mnist", ""),
        ("", ""),
    ],
)
def test_the_name_of_a_task(step, task):
    assert task_name(step) == task
