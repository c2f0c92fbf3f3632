"""From jobs to tasks, and what is refused on the way."""

import ast
import json
import pathlib
import shlex
import sys

import pytest

from tfsteps import spec
from tfsteps.platforms import hai
from tfsteps.platforms.hai import ranks, rules, schema
from tfsteps.platforms.hai.options import HaiOptions
from tfsteps.platforms.hai.ranks.wire import replicas
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.systems import restart_policy

_PLACES = OutputPaths(output="/ws/out", model="/ws/out/model", logs="/ws/out/logs", base_dir=pathlib.Path())
_IDENTITY = Identity(run="r1", task="train", attempt=2, pipeline="mnist")


def job(**fields):
    plain = {"name": "mnist", "roles": {"worker": {}}, "command": ["python", "train.py"], **fields}
    return spec.from_plain(plain, "test", {"hai": HaiOptions})


def rendered(**fields):
    return schema.render(job(**fields), _IDENTITY, _PLACES, "")


def plan(body):
    return json.loads(shlex.split(body["spec"]["environments"]["TFSTEPS_PLAN"])[0])


@pytest.mark.shows("queue", "hai")
def test_a_task():
    body = rendered(
        roles={"chief": {}, "worker": {"replicas": 2, "env": {"B": "2"}}, "ps": {}, "evaluator": {"args": ["--eval"]}},
        image="registry.local/own/tf:2", working_dir="/ws", env={"A": "it's"}, queue="v100#east", priority=50,
        labels={"team": "vision"}, deadlines={"total": "90m"},
        systems={"hai": {"spot": True, "py_venv": "tf[ada]", "watchdog_time": "1h",
                         "services": [{"name": "board", "type": "http", "port": 6006}]}},
    )  # fmt: skip
    assert (body["version"], body["task_type"], body["priority"]) == (2, "training", 20)
    resource = {"image": "registry.local/own/tf:2", "group": "v100#east", "node_count": 5, "is_spot": True}
    assert body["resource"] == resource
    assert body["spec"]["workspace"] == "/ws"
    assert body["spec"]["environments"]["A"] == """'it'"'"'s'"""
    assert len(body["spec"]["parameters"]) < 600  # of 2047, which HAI allows
    options = body["options"]
    assert (options["timeout"], options["py_venv"], options["watchdog_time"]) == (5400, "tf[ada]", 3600)
    assert body["services"][0]["port"] == 6006
    assert {"team=vision", "tfsteps.dev/run-id=r1", "tfsteps.dev/attempt=2"} <= set(options["tags"])
    assert not [tag for tag in options["tags"] if tag.startswith("_") or "," in tag]
    assert replicas(plan(body)) == [
        ("chief", 0), ("worker", 0), ("worker", 1), ("ps", 0), ("evaluator", 0)
    ]  # fmt: skip
    assert plan(body)["roles"]["evaluator"]["command"] == ["python", "train.py", "--eval"]


def test_the_hash_follows_the_job_and_not_the_text_of_the_agent(monkeypatch):
    def hash_of(body):
        return schema.labels({"tags": body["options"]["tags"]})[schema.SPEC_HASH]

    before = hash_of(rendered())
    monkeypatch.setattr(schema, "_agent_text", lambda: "another version")
    assert hash_of(rendered()) == before
    assert hash_of(rendered(args=["-v"])) != before


@pytest.mark.parametrize(
    ("priority", "level"),
    [
        (None, -1),
        (0, 0),
        (14, 0),
        (15, 5),
        (29, 10),
        (44, 20),
        (50, 20),
        (58, 30),
        (73, 40),
        (86, 40),
        (87, 50),
        (100, 50),
    ],
)
def test_seven_levels_of_priority(priority, level):
    assert schema.level(priority) == level


def test_what_runs_on_the_ranks_needs_an_old_python_and_nothing_else():
    for file in [*pathlib.Path(ranks.__file__).parent.glob("*.py"), pathlib.Path(restart_policy.__file__)]:
        tree = ast.parse(file.read_text(), feature_version=(3, 7))
        tree.body = [node for node in tree.body if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node))]
        froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level]
        names = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
        assert names | {node.module for node in froms} <= sys.stdlib_module_names
    assert len(schema._agent_text()) < 32_000


@pytest.mark.parametrize(
    ("fields", "path", "words"),
    [
        ({"command": []}, "roles.worker.command", "does not run an image's entrypoint"),
        ({"image": "acme/mnist:1"}, "image", "registry/project/name"),
        ({"working_dir": "/a b"}, "working_dir", "without spaces"),
        ({"queue": "two words"}, "queue", "is not a group"),
        ({"gang": {"min_available": 1}, "roles": {"worker": {"replicas": 2}}}, "gang.min_available", "all 2 nodes"),
        ({"args": ["x" * 120_000]}, "roles", "the limit is 100000"),
        ({"systems": {"hai": {"services": [{"name": "a", "type": "tcp"}]}}}, "services[0].port", "is missing"),
        ({"systems": {"hai": {"services": [{"name": "a", "port": 1}]}}}, "services[0].port", "type local"),
        ({"systems": {"hai": {"services": [{"name": "a"}, {"name": "a"}]}}}, "services[1].name", "used twice"),
        (
            {"systems": {"hai": {"services": [{"name": "a", "type": "http", "port": 80, "rank": [1]}]}}},
            "services[0].rank",
            "run only on rank 0",
        ),
    ],
)
def test_what_the_platform_would_refuse_is_refused_here(fields, path, words):
    problems = "\n".join(map(str, hai.system().spec_problems(job(**fields))))
    assert path in problems
    assert words in problems


def test_fields_without_effect_are_warnings():
    problems = "\n".join(
        rules.warnings(job(resources={"cpu": 2, "memory": "4Gi"}, service_account="x", annotations={"a": "b"}))
    )
    for words in ("resources.cpu", "resources.memory", "service_account", "annotations", "lost with their pods"):
        assert words in problems
    assert rules.warnings(job(working_dir="/ws")) == []


def test_the_plan_that_people_see_leaves_out_the_agents_text():
    training_job = job(working_dir="/ws")
    system = hai.system()
    paths = system.output_paths(training_job, _IDENTITY, pathlib.Path())
    assert paths.output == "/ws/tfsteps/r1/train"
    (body,) = system.plan(training_job, _IDENTITY, paths)
    assert body["spec"]["environments"]["TFSTEPS_AGENT"].startswith("(")
