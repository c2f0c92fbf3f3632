"""Each entry of the list of differences between a local run and a cluster, and what does not differ."""

import pathlib
import re

import pytest
from kfp import dsl

from tests.support import features
from tests.support.jobs import PROGRAMS, run_job
from tfsteps import spec
from tfsteps.engines.local.runner import PipelineError, run
from tfsteps.image import IMAGE
from tfsteps.systems import registry
from tfsteps.systems.roles import EXAMPLE

PAGE = pathlib.Path(__file__).parents[4] / "docs/guides/local.md"
ENTRY = re.compile(r"^- \*\*(.+?)\*\*: ", re.MULTILINE)


def plan(system="local", **fields):
    """Return what is started for a job with a worker; `image` is left out by None."""
    plain = {name: value for name, value in {**EXAMPLE, **fields}.items() if value is not None}
    job = spec.from_plain(plain, "test", registry.options())
    where = registry.get(system)
    return where.plan(job, features.IDENTITY, features.PLACES), where.warnings(job), where.spec_problems(job)


def env(**fields):
    return plan(**fields)[0][0]["env"]


def container(**fields):
    (item, *_), _, problems = plan("jobs", **fields)
    assert not problems
    return item["spec"]["template"]["spec"]["containers"][0]


def pod_variables(**fields):
    return {variable["name"]: variable for variable in container(**fields)["env"]}


def program(monkeypatch):
    monkeypatch.delenv("PATH")
    assert env()["PATH"].split(":")[0].endswith("bin")
    assert [problem.path for problem in plan(command=None)[2]] == [("roles", "worker", "command")]
    assert "command" not in container(command=None)


def folder(_):
    assert plan(working_dir="/tmp")[0][0]["working_dir"] == "/tmp"
    assert plan(working_dir="/missing")[0][0]["working_dir"] == "/job"
    assert container(working_dir="/missing")["workingDir"] == "/missing"
    assert "`working_dir` has no effect: this machine has no such folder." in plan(working_dir="/missing")[1]
    result = run_job("name: a\nroles: {worker: {}}\ncommand: [pwd]\nworking_dir: missing")
    assert result.printed(str(PROGRAMS))
    assert f"`working_dir` has no effect: {PROGRAMS} has no such folder." in result.status.warnings
    result = run_job("name: a\nroles: {worker: {working_dir: ..}}\ncommand: [pwd]")
    assert (result.printed(str(PROGRAMS.parent)) != [], result.status.warnings) == (True, [])


def environment(monkeypatch):
    monkeypatch.setenv("MINE", "1")
    monkeypatch.setenv("TFSTEPS_WEBHOOK_URL", "https://secret")
    result = run_job("name: a\nroles: {worker: {}}\ncommand: [env]")
    assert result.printed("MINE=1")
    assert not result.printed("https://secret")
    assert "MINE" not in pod_variables()


def sources(monkeypatch):
    token = {"TOKEN": {"secret": "hub", "key": "token"}}
    monkeypatch.delenv("TOKEN", raising=False)
    assert "TOKEN" not in env(env=token)
    assert any("`env.TOKEN` has no effect" in warning for warning in plan(env=token)[1])
    assert "valueFrom" in pod_variables(env=token)["TOKEN"]


def addresses(_):
    assert "127.0.0.1:2223" in env(roles={"worker": {"replicas": 2}})["TF_CONFIG"]
    assert "localhost:2222" in pod_variables()["TF_CONFIG"]["value"]
    assert ".svc:2222" in pod_variables(roles={"worker": {"replicas": 2}})["TF_CONFIG"]["value"]


def proxies(monkeypatch):
    monkeypatch.setenv("no_proxy", "acme.org")
    assert env()["no_proxy"] == "acme.org,127.0.0.1,localhost"
    assert "no_proxy" not in pod_variables()


def python(monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    lines = run_job("name: a\nroles: {worker: {}}\ncommand: [env]\nenv: {PYTHONPATH: /mine}").printed
    assert lines(r"PYTHONPATH=\S+/startup:/mine")
    assert lines("PYTHONFAULTHANDLER=1")
    assert env(env={"PYTHONPATH": "/mine"})["PYTHONPATH"] == "/mine"  # what the job file says
    assert "PYTHONPATH" not in env()
    assert not {"PYTHONPATH", "PYTHONFAULTHANDLER"} & pod_variables().keys()


def gpu(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert env()["CUDA_VISIBLE_DEVICES"] == "-1"
    assert "CUDA_VISIBLE_DEVICES" not in env(resources={"gpu": 1})


def memory(_):
    text = (
        "name: a\nroles: {worker: {}}\ncommand: [python, -c, 'a = bytearray(300 << 20); import time; time.sleep(60)']"
    )
    failure = run_job(f"{text}\nresources: {{memory: 100Mi}}").status.failure
    assert failure.exit_code == 137
    assert "memory limit" in failure.meaning


def unused(_):
    settings = {"volumes": [{"pvc": "data", "mount": "/data"}], "node_selector": {"disk": "ssd"}}
    _, warnings, problems = plan(**settings, resources={"cpu": 1, "shared_memory": "1Gi", "memory": "2Gi"})
    assert not problems
    for field in ("image", "volumes", "node_selector", "resources.cpu", "resources.shared_memory"):
        assert any(f"`{field}`" in warning for warning in warnings)


def output(_):
    job = spec.from_plain(
        {**EXAMPLE, "output_dir": "/data/{run_id}", "volumes": [{"pvc": "data", "mount": "/data"}]},
        "test",
        registry.options(),
    )
    paths = registry.get("local").output_paths(job, features.IDENTITY, pathlib.Path("/job"))
    assert not paths.output.startswith("/data")


def step(image, command):
    @dsl.container_component
    def own():
        return dsl.ContainerSpec(image=image, command=command)

    @dsl.pipeline(name="own")
    def pipeline():
        own().set_env_variable("A", "1")

    return pipeline


def step_image(_):
    with pytest.raises(PipelineError, match="--installed python:3"):
        run(step("python:3", ["true"]), {}, pipeline_root=pathlib.Path("missing"))


def step_references(_):
    lines = []
    run(step(IMAGE, ["echo", "$(A) $$"]), {}, pipeline_root=pathlib.Path.cwd() / "root", say=lines.append)
    assert lines == ["[own] $(A) $$"]


ENTRIES = {
    "program": program,
    "folder": folder,
    "environment": environment,
    "variables from a Secret, a ConfigMap or the pod": sources,
    "addresses": addresses,
    "proxies": proxies,
    "Python": python,
    "GPU": gpu,
    "memory": memory,
    "image, CPU limits, shared memory, volumes, node selectors, ...": unused,
    "output": output,
    "image of a pipeline step": step_image,
    "`$(NAME)` in a pipeline step of your own": step_references,
}


def test_the_page_has_an_entry_for_each_difference():
    section = PAGE.read_text().partition("## Differences from a cluster")[2].partition("\n## ")[0]
    assert ENTRY.findall(section) == list(ENTRIES)


@pytest.mark.parametrize("subject", ENTRIES)
def test_an_entry_is_true(subject, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    ENTRIES[subject](monkeypatch)


def test_a_replica_has_the_same_variables_on_a_cluster(monkeypatch):
    for name in [*pod_variables(), "A"]:
        monkeypatch.delenv(name, raising=False)
    declared = {"A": "$(TFSTEPS_TASK)"}
    assert set(pod_variables(env=declared)) <= set(env(env=declared))
