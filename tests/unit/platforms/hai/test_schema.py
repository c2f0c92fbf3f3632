"""The variables of a task's ranks: the job's, the wrapper's, and which of the job's are refused."""

import json
import pathlib
import shlex

import pytest

from tfsteps import spec
from tfsteps.platforms import hai
from tfsteps.platforms.hai import schema
from tfsteps.platforms.hai.options import OPTIONS
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths

_PLACES = OutputPaths(output="out", model="model", logs="logs", base_dir=pathlib.Path())
_JOB = {"name": "mnist", "command": ["python", "train.py"]}


def job(**fields):
    return spec.from_plain({**_JOB, "roles": {"worker": {}}, **fields}, "test", {"hai": OPTIONS})


def rendered(**fields):
    return schema.render(job(**fields), Identity(run="run", task="task"), _PLACES, "")


@pytest.mark.parametrize(
    "name",
    ["MASTER_ADDR", "MASTER_IP", "MASTER_PORT", "RANK", "WORLD_SIZE", "CHAIN_ID", "MARSV2_RANK", "MARSV2_USER_TOKEN"],
)
def test_what_the_ranks_need_of_the_platform_cannot_be_set(name):
    for fields in ({"env": {name: "secret"}}, {"env": {name: {"secret": "s", "key": "k"}}}):
        (at_job,) = hai.system().problems(job(**fields))
        (at_role,) = hai.system().problems(job(roles={"worker": fields}))
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
    assert hai.system().problems(job(env={name: "1"})) == []


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
