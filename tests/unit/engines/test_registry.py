"""What the engines declare, and which of them is asked first."""

import importlib
import pathlib
import subprocess
import sys
import tomllib

import pytest

from tfsteps.engines import registry
from tfsteps.engines.plugin import EnginePlugin
from tfsteps.engines.registry import NAMES

FUNCTIONS = ("authoring", "objects", "node_names")
OWNER = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "wf-x2k4q", "uid": "w"}
IN_PODS = ("find_pipeline", "objects", "node_names", "keep_schedules")
STARTED = [f"tfsteps.engines.{module}" for module in ("argo.submitter", "local.step", "local.preloaded")]
ROOT = pathlib.Path(__file__).parents[3]


def _target(function):
    """Return what `deferred` or `constant` was given."""
    (cell,) = function.__closure__
    return cell.cell_contents


@pytest.mark.parametrize("name", NAMES)
def test_each_engine_declares_itself(name):
    engine = registry.plugin(name)
    assert engine.name == name
    assert all(getattr(engine, function)() is not None for function in FUNCTIONS if getattr(engine, function))
    for function in ("submit", "fire_times", "rerun", "find_pipeline", "is_configured", "schedules", "keep_schedules"):
        if declared := getattr(engine, function):
            target = _target(declared)
            module, _, attribute = target.partition(":")
            assert callable(getattr(importlib.import_module(module), attribute)), target


def test_the_contract_of_pods_has_each_module_that_a_plugin_loads_there():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [contract for contract in config if contract["name"].startswith("What runs in a pod")]
    engines = [registry.plugin(name) for name in NAMES]
    loaded = [getattr(engine, function) for engine in engines for function in IN_PODS]
    loaded += [engine.step.task for engine in engines if engine.step]
    modules = {_target(function).partition(":")[0] for function in loaded if function}
    modules |= {registry.__name__, *(f"tfsteps.engines.{name}.plugin" for name in NAMES), *STARTED}
    named = [module for module in contract["source_modules"] if module.startswith("tfsteps.engines.")]
    assert sorted(named) == sorted(modules)


def test_argo_is_asked_last_because_its_pods_may_be_of_another_engine(monkeypatch):
    other = EnginePlugin(name="other", title="other", authoring=None, submit=None)
    monkeypatch.setattr(
        registry, "plugins", lambda: {**{name: registry.plugin(name) for name in NAMES}, "other": other}
    )
    assert [engine.name for engine in registry.most_specific_first()] == ["kfp", "local", "other", "argo"]


def test_a_command_line_of_this_package_loads_no_other_one(monkeypatch):
    monkeypatch.setattr(registry, "plugins", lambda: pytest.fail("all were loaded"))
    with pytest.raises(ValueError, match="executor_input"):
        registry.step_task(["--executor_input", "{"])


def test_engines_that_share_a_kind_of_object_are_asked_once():
    assert [objects.resource.kind for objects in registry.engine_objects()] == ["Workflow"]
    assert registry.find_origin([OWNER], "wf.root.fit.executor").task == "fit"
    assert registry.find_origin([OWNER], "wf.main.fit") == registry.Origin("wf-x2k4q", "")
    assert registry.find_origin([{**OWNER, "apiVersion": "v1"}], "wf.main.fit").run_object == ""


@pytest.mark.parametrize(("step", "name"), [("wf.root.fit.executor", "kfp"), ("wf.main.fit", "argo"), ("", "argo")])
def test_the_engine_of_a_run_is_known_by_the_names_of_its_steps(step, name):
    (objects,) = registry.engine_objects()
    assert registry.engine_of(objects, step) == name


class Answers:
    def __init__(self, why):
        self.why_step_ended = lambda *_: why


@pytest.mark.parametrize(
    ("answers", "why"), [(["it is gone", ""], ""), (["it is gone", "gone"], "it is gone"), ([], "")]
)
def test_a_step_has_ended_only_if_every_kind_of_object_says_so(answers, why, monkeypatch):
    monkeypatch.setattr(registry, "engine_objects", list)
    runs = registry.EngineRuns(None, "")
    runs._runs = [Answers(answer) for answer in answers]
    assert runs.why_step_ended("ns", "wf", "w", "step") == why


@pytest.mark.parametrize("command", ["--version", "--help", "runs", "validate"])
def test_a_command_without_pipelines_loads_no_engine(command, tmp_path):
    (tmp_path / "job.yaml").write_text("{name: a, command: [x], roles: {worker: {}}}")
    words = [command, *(["job.yaml"] if command == "validate" else [])]
    program = f"import sys, atexit; sys.argv[1:] = {words}; atexit.register(lambda: print(*sys.modules, sep=chr(10)))"
    run = [sys.executable, "-c", f"{program}\nfrom tfsteps.cli import main; main()"]
    env = {"TFSTEPS_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    printed = subprocess.run(run, capture_output=True, text=True, check=False, cwd=tmp_path, env=env).stdout
    modules = printed.split()
    assert "tfsteps.cli" in modules, printed
    assert not [name for name in modules if name.startswith("tfsteps.engines.") and name.count(".") > 2], command
