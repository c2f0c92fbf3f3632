"""The variables of a task's ranks: the job's, the wrapper's, and which of the job's are refused."""

import ast
import json
import pathlib
import shlex
import subprocess
import sys

import pytest

from tfsteps import spec
from tfsteps.platforms import hai
from tfsteps.platforms.hai import schema
from tfsteps.platforms.hai.options import HaiOptions
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths

_PLACES = OutputPaths(output="out", model="model", logs="logs", base_dir=pathlib.Path())
_JOB = {"name": "mnist", "command": ["python", "train.py"]}


def job(**fields):
    return spec.from_plain({**_JOB, "roles": {"worker": {}}, **fields}, "test", {"hai": HaiOptions})


def rendered(**fields):
    return schema.render(job(**fields), Identity(run="run", task="task"), _PLACES, "")


@pytest.mark.parametrize(
    "name",
    ["MASTER_ADDR", "MASTER_IP", "MASTER_PORT", "RANK", "WORLD_SIZE", "CHAIN_ID", "MARSV2_RANK", "MARSV2_USER_TOKEN"],
)
def test_what_the_ranks_need_of_the_platform_cannot_be_set(name):
    for fields in ({"env": {name: "secret"}}, {"env": {name: {"secret": "s", "key": "k"}}}):
        (at_job,) = hai.system().spec_problems(job(**fields))
        (at_role,) = hai.system().spec_problems(job(roles={"worker": fields}))
        assert str(at_job).startswith(f"env.{name}")
        assert str(at_role).startswith(f"roles.worker.env.{name}")
        assert "is set by HAI on each rank" in at_job.wrong
        assert "Remove it" in at_job.fix
    assert ("secret" in str(at_job)) is False
    assert ("use TFSTEPS_HAI_TOKEN" in at_job.fix) == (name == "MARSV2_USER_TOKEN")


@pytest.mark.parametrize("name", ["TFSTEPS_AGENT", "TFSTEPS_PLAN", "TFSTEPS_SECRET", "TF_CONFIG"])
def test_what_the_wrapper_sets_cannot_be_set_on_any_system(name):
    with pytest.raises(spec.SpecError, match=f"env.{name}: is set by tfsteps"):
        job(env={name: "mine"})


@pytest.mark.parametrize("name", ["MASTER", "MY_RANK", "MARSV1", "RANK_COUNT"])
def test_other_names_are_free(name):
    assert hai.system().spec_problems(job(env={name: "1"})) == []


def test_names_that_the_platforms_shell_cannot_export_go_by_the_plan():
    env = {"UID": "5", "LINES": "6\n7", "UIDS": "8", "_A1": "9"}
    environments = rendered(env=env)["spec"]["environments"]
    assert {"UIDS", "_A1"} == set(environments) & set(env)
    plan = json.loads(shlex.split(environments["TFSTEPS_PLAN"])[0])
    assert {name: plan["env"][name] for name in env} == env


def test_each_task_has_a_secret_that_neither_people_see_nor_the_hash_holds():
    one, other = rendered(), rendered()
    secrets = {body["spec"]["environments"]["TFSTEPS_SECRET"] for body in (one, other)}
    assert len(secrets) == 2
    assert all(len(secret) == 32 for secret in secrets)
    assert schema.labels(one["options"])[schema.SPEC_HASH] == schema.labels(other["options"])[schema.SPEC_HASH]
    shown = str(hai.system().plan(job(), Identity(run="run", task="task"), _PLACES))
    assert "TFSTEPS_SECRET" in shown
    assert not any(secret in shown for secret in secrets)
    assert schema.shown(one) == schema.shown(other)


def options(**values):
    return {"systems": {"hai": values}}


@pytest.mark.parametrize(
    ("fields", "level"),
    [
        ({"priority": 30}, 10),
        (options(priority=30), 30),
        ({"priority": 30, **options(priority="LOW")}, 0),
        (options(priority="UNDER_NORMAL"), 8),
        (options(priority="AUTO"), -1),
        (options(priority=0), 0),
    ],
)
def test_levels_of_hai_are_another_scale(fields, level):
    assert rendered(**fields)["priority"] == level


def test_code_comes_from_a_repository():
    body = rendered(working_dir="src", **options(git_remote_repo="https://git/x.git", git_target_revision="main"))
    assert body["spec"]["workspace"] == ""
    assert (body["spec"]["git_remote_repo"], body["spec"]["git_target_revision"]) == ("https://git/x.git", "main")
    plan = json.loads(shlex.split(body["spec"]["environments"]["TFSTEPS_PLAN"])[0])
    assert plan["roles"]["worker"]["dir"] == "src"
    assert rendered(**options(git_remote_repo="r"))["spec"]["git_target_revision"] == "HEAD"
    assert "git_remote_repo" not in rendered()["spec"]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"git_target_revision": "main"}, "git_target_revision"),
        ({"git_remote_repo": "r", "workspace": "/ws"}, "workspace"),
        ({"git_remote_repo": "r", "record_git_revision": True}, "record_git_revision"),
    ],
)
def test_code_comes_from_one_place(values, field):
    (problem,) = hai.system().spec_problems(job(**options(**values)))
    assert str(problem).startswith(f"systems.hai.{field}")


def test_variables_that_change_the_platforms_scripts_go_by_the_plan():
    env = {"PATH": "/opt/bin", "PYTHONPATH": "/x", "LD_PRELOAD": "a.so", "BATCH": "8", "HF_ENV_NAME": "202111"}
    environments = rendered(env=env)["spec"]["environments"]
    assert {"BATCH", "HF_ENV_NAME"} == set(environments) & set(env)
    plan = json.loads(shlex.split(environments["TFSTEPS_PLAN"])[0])
    assert {name: plan["env"][name] for name in env} == env


def test_an_old_python_on_a_rank_is_named():
    program = shlex.split(rendered()["spec"]["parameters"])[-1]
    ast.parse(program, feature_version=(3, 6))
    old = f"import sys; sys.version_info, sys.version = (3, 6, 9), '3.6.9 (x)'; {program}"
    ran = subprocess.run([sys.executable, "-c", old], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr.startswith("tfsteps: python3 of this image is 3.6.9; the wrapper needs 3.7 or newer")


def test_a_relative_program_without_a_workspace_is_a_warning():
    warnings = [line for line in hai.system().warnings(job()) if "train.py is looked for in the user's home" in line]
    assert len(warnings) == 1
    for fields in ({"working_dir": "/ws"}, {"command": ["python", "/a/train.py"]}, options(git_remote_repo="r")):
        assert not [line for line in hai.system().warnings(job(**fields)) if "looked for" in line]
