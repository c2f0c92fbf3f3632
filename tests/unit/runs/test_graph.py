"""The graph of a run, from statuses and what exists beside them."""

from tests.unit.cli.statuses import FAILURE, status
from tfsteps.runs.events import State
from tfsteps.runs.graph import Node, NodeKind, Surroundings, graph


def kinds(node):
    return [(node.kind.value, node.name), *(pair for child in node.children for pair in kinds(child))]


def pipeline(*steps, state="running"):
    return Node(kind=NodeKind.PIPELINE, name="nightly", state=state, started=1.0, children=steps)


def test_a_run_has_tasks_attempts_jobs_and_replicas():
    first = status(attempt=0, workers=1, state=State.FAILED, created=10.0, failure=FAILURE, tensorboard_url="http://t/")
    second = status(attempt=1, workers=2, created=20.0)
    other = status(task="eval", workers=0, created=15.0)
    root = graph("r1", [second, other, first], Surroundings(), {first.identity: {"report": "/r.html"}})
    assert kinds(root) == [
        ("run", "r1"),
        ("task", "mnist"),
        ("attempt", "0"),
        ("job", "mnist-abc"),
        ("replica", "worker-0"),
        ("attempt", "1"),
        ("job", "mnist-abc"),
        ("replica", "worker-0"),
        ("replica", "worker-1"),
        ("task", "eval"),
        ("attempt", "0"),
        ("job", "eval-abc"),
    ]
    failed = next(root.below(NodeKind.ATTEMPT))
    assert failed.message == FAILURE.summary
    assert failed.links == {"tensorboard": "http://t/", "report": "/r.html"}
    assert (root.state, root.started, root.ended) == ("running", 10.0, None)
    replica = next(failed.below(NodeKind.REPLICA))
    assert (replica.state, replica.place, replica.message) == ("failed", "pid 1 port 5000", "exit code 1")


def test_tasks_and_steps_are_below_their_pipeline_in_the_order_of_their_start():
    steps = [Node(kind=NodeKind.STEP, name=name, started=at) for name, at in (("a", 5.0), ("c", None), ("b", 30.0))]
    root = graph("r1", [status(created=20.0, workers=0)], Surroundings(pipelines=[pipeline(*steps)]))
    assert [child.name for child in root.children[0].children] == ["a", "mnist", "b", "c"]


def test_several_pipelines_of_one_run_are_beside_its_tasks():
    root = graph("r1", [status()], Surroundings(pipelines=[pipeline(), pipeline()]))
    assert [child.kind for child in root.children] == ["pipeline", "pipeline", "task"]


def test_what_belongs_to_a_job_is_below_its_attempt_and_its_job():
    job = status(workers=0)
    launcher, volume = Node(kind=NodeKind.LAUNCHER, name="l"), Node(kind=NodeKind.VOLUME, name="v")
    around = Surroundings(
        launchers={job.identity: launcher},
        parts={job.identity: [volume]},
        others=[Node(kind=NodeKind.TENSORBOARD, name="t")],
    )
    root = graph("r1", [job], around)
    assert kinds(root)[2:] == [
        ("attempt", "0"),
        ("launcher", "l"),
        ("job", "mnist-abc"),
        ("volume", "v"),
        ("tensorboard", "t"),
    ]


def test_a_run_has_the_worst_state_of_what_has_ended():
    ended = [status(task=str(state), state=state) for state in (State.SUCCEEDED, State.FAILED, State.CANCELLED)]
    root = graph("r1", ended, Surroundings())
    assert root.state == "failed"
    assert root.ended == max(job.ended for job in ended)
    assert graph("r1", [], Surroundings()).state == ""
