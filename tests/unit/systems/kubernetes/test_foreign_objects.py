"""What others store: numbers of replicas that nobody has, and objects that nest too deep. Each costs itself alone."""

import functools
import json
import random

import pytest

from tests.unit.janitor.api_server import FakeApiServer
from tests.unit.systems.kubernetes.test_ownership import KINDS, PODS, case, job_of, pod_of
from tests.wire.scripted import Answer, serve
from tfsteps.janitor.sweep import Sweep
from tfsteps.kube import answers
from tfsteps.kube.client import Api
from tfsteps.runs.events import ReplicaName, ReplicaState
from tfsteps.systems.kubernetes.follow.job_object import REPLICAS, noted_states
from tfsteps.systems.kubernetes.query.runs import ClusterRuns
from tfsteps.systems.pipeline import Origin


def with_replicas(kind, number):
    """Return a job object of a kind whose worker role has that many replicas."""
    item = job_of(kind)
    body = item["spec"]
    match kind.name:
        case "kubeflow":
            body["tfReplicaSpecs"]["Worker"]["replicas"] = number
        case "jobs":
            body["completions"] = number
        case "jobset":
            body["replicatedJobs"][0]["template"]["spec"]["parallelism"] = number
        case "trainjob":
            (roles,) = (entry for entry in body["trainer"]["env"] if entry["name"] == "TFSTEPS_ROLES")
            roles["value"] = f"worker={number}"
        case _:
            body["replicaSpecs"][0]["replicas"] = number
    return item


@pytest.mark.parametrize("number", [10**9, 10_001, -1, 1e30, "many"])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_number_of_replicas_that_no_job_has_is_refused_before_anything_is_made_of_it(kind, number):
    with pytest.raises((ValueError, TypeError)):
        kind.roles(with_replicas(kind, number))
    assert kind.roles(with_replicas(kind, 9_999))["worker"].replicas >= 9_999


def other(kind):
    """Return a job that is due, of another run."""
    item = job_of(kind, "due")
    item["metadata"] |= {"namespace": "z", "name": "due"}
    item["metadata"]["labels"] |= {"tfsteps.dev/run-id": "z", "tfsteps.dev/job": "due"}
    return {**item, "status": {}}


def odd(kind, number=10**9):
    """Return the objects of a server: a job with an impossible number of replicas and its pod, and one that is due."""
    objects, owners = case("its job", kind)
    mine = (kind.resource.api, kind.resource.plural)
    jobs = [with_replicas(kind, number), *objects.get(mine, ()), other(kind)]
    return {**objects, mine: jobs, PODS: [pod_of(kind, job_of(kind), owners)]}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_an_impossible_job_is_reported_and_the_others_are_judged(kind):
    fake, lines = FakeApiServer(odd(kind)), []
    with serve(fake.answer) as server:
        api = Api(server.access(), patience=0)
        count = Sweep(api, [kind], "", lines.append).run()
        shown = ClusterRuns(api, [kind], "", lambda *_: Origin("", ""), lines.append).jobs()
    assert (fake.deleted, count.failures, [job.status.job for job in shown]) == (["due"], 1, ["due"])
    assert ["is not understood" in line for line in lines] == [True, False, True]


# --- depth

DEEPER = 100_000
"""Levels that no interpreter decodes: 3.11 gives up after 1,000, 3.12 after 1,500, and 3.13 after 10,000."""


def deep(fake, asked, levels=DEEPER):
    """Return the answer of a server, with values that nest `levels` deep in the place of DEEP."""
    answer = fake.answer(asked)
    text = json.dumps(answer.body).replace('"DEEP"', "[" * levels + "]" * levels)
    return Answer(answer.status, text.encode(), answer.headers)


def test_an_object_that_is_nested_too_deep_costs_itself_alone():
    kind = KINDS["tfjob-v1alpha1 of tensorflow.org/v1alpha1"]
    bomb = {**job_of(kind), "x": ["DEEP", 1], "status": {}}  # its deadline has passed, too
    fake, lines = FakeApiServer({(kind.resource.api, "tfjobs"): [bomb, other(kind)], PODS: []}), []
    with serve(functools.partial(deep, fake)) as server:
        api = Api(server.access(), patience=0)
        count = Sweep(api, [kind], "", lines.append).run()
        shown = ClusterRuns(api, [kind], "", lambda *_: Origin("", ""), lines.append).jobs()
    assert (fake.deleted, count.failures, len(shown)) == (["due"], 1, 2)
    assert "nested more than 100 levels deep" in lines[0]


def nested(levels, rng):
    value = 1
    for _ in range(levels):
        value = rng.choice([[value], {"a": value}, [1, value, [2]], {"x": ']}\\"', "k": value, "z": [[]]}])
    return value


def cut(value, levels):
    if not isinstance(value, dict | list):
        return value
    if not levels:
        return "left out: nested more than 100 levels deep"
    if isinstance(value, list):
        return [cut(item, levels - 1) for item in value]
    return {key: cut(child, levels - 1) for key, child in value.items()}


@pytest.mark.parametrize("seed", range(20))
def test_what_is_left_out_is_what_is_too_deep(seed):
    rng = random.Random(seed)
    items = [{"at": nested(rng.randint(80, 120), rng)} for _ in range(5)]
    spaces = rng.choice([(",", ":"), (", ", ": ")])
    deepest = '{"at":' + "[" * DEEPER + "]" * DEEPER + "}"
    text = json.dumps({"kind": "List", "items": [*items, "DEEPEST"]}, separators=spaces).replace('"DEEPEST"', deepest)
    *items_before, last = answers.decode(text)["items"]
    for item, expected in zip(items_before, items, strict=True):
        whole = cut(expected, 98)  # the item itself is at level 3
        assert item == (whole if whole == expected else {**whole, answers.CUT: item[answers.CUT]})
    assert answers.CUT in last


@pytest.mark.parametrize("form", ["%s", '{"type": "ADDED", "object": %s}', '{"kind": "List", "items": [%s]}'])
def test_an_object_that_is_too_deep_says_so(form):
    answer = answers.decode(form % ('{"metadata": {"name": "a"}, "spec": ' + "[" * DEEPER + "]" * DEEPER + "}"))
    item = answer.get("object") or next(iter(answer.get("items", [])), answer)
    assert (item["metadata"]["name"], answers.CUT in item) == ("a", True)


@pytest.mark.parametrize("text", ["[" * 3000, '{"a":' * 3000, '{"a":' + "[" * 3000 + "]" * 3000 + "]", "]" * 3000])
def test_a_deep_text_that_is_no_object_is_refused(text):
    with pytest.raises(answers.ShapeError):
        answers.decode(text)


# --- an annotation


@pytest.mark.parametrize(
    "ranges", [[[0, 9]] * 30_000, [[5, 9], [0, 1]], [[0, 5], [5, 9]], [[3, 2]], [[-5, -1]]], ids=str
)
def test_ranges_that_overlap_are_not_understood(ranges):
    replicas = [ReplicaName("worker", index) for index in range(10_000)]
    text = json.dumps({"succeeded": {"worker": ranges}})
    assert noted_states({"metadata": {"annotations": {REPLICAS: text}}}, replicas) == {}


def test_ranges_beyond_the_replicas_are_cut():
    text = json.dumps({"succeeded": {"worker": [[1, 10**12]], "ps": [[0, 3]]}})
    items_before = noted_states(
        {"metadata": {"annotations": {REPLICAS: text}}}, [ReplicaName("worker", 0), ReplicaName("worker", 1)]
    )
    assert items_before == {ReplicaName("worker", 1): ReplicaState.SUCCEEDED}
