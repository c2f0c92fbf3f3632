"""`tfsteps requeue` and `tfsteps change`: what HAI's scheduler does with a task that exists."""

import pytest

from tests.conformance.verdicts import sh
from tests.hai import pods
from tests.hai.environment import HaiEnvironment
from tests.support.waiting import until
from tfsteps.cli.commands.stop import change, requeue
from tfsteps.console.errors import CommandError
from tfsteps.runs.events import State

pytestmark = [pytest.mark.skipif(not pods.may_isolate(), reason="ranks need namespaces, which root may make")]


@pytest.fixture
def environment(tmp_path, monkeypatch):
    with HaiEnvironment(tmp_path) as environment:
        for name, value in environment.env.items():
            monkeypatch.setenv(name, value)
        yield environment


def test_a_task_is_interrupted_and_goes_on(environment, capsys):
    launcher = environment.launch({"roles": {"worker": {}}, **sh("echo up; exec sleep 600")})
    launcher.until(State.RUNNING)
    requeue("run", on="hai")
    assert "queues it again" in capsys.readouterr().out
    until(lambda: len(environment.tasks()) == 2)
    assert environment.newest().chain_id == environment.tasks()[0].chain_id
    launcher.until(State.RUNNING)
    environment.platform.stop(environment.newest(), "stop")
    launcher.process.wait(60)
    requeue("run", on="hai")
    assert "already ended" in capsys.readouterr().out
    with pytest.raises(CommandError, match=r"has ended: [^;]*[^.;]; `tfsteps rerun`"):
        change("run", priority="HIGH", on="hai")


def test_priority_and_group_of_a_task_change(environment, capsys):
    launcher = environment.launch({"roles": {"worker": {}}, "priority": 0, **sh("exec sleep 600")})
    launcher.until(State.RUNNING)
    group = min(environment.platform.groups)
    change("run", priority="very_high", queue=group, on="hai")
    assert f"priority VERY_HIGH (40), group {group}" in capsys.readouterr().out
    assert environment.newest().priority == 40
    assert environment.newest().schema["resource"]["group"] == group
    change("run", priority="50", on="hai")
    assert "ABOVE_NORMAL (20)" in capsys.readouterr().out
    for options, wrong in (
        ({"queue": "nowhere"}, "no group of nodes of which you have a quota"),
        ({"priority": "AUTO"}, "is no priority"),
        ({}, "give --priority or --queue"),
    ):
        with pytest.raises(CommandError, match=wrong):
            change("run", **options, on="hai")
    assert environment.newest().priority == 20
    assert environment.newest().schema["resource"]["group"] == group
