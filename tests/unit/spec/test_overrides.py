"""Overrides of fields of a job, and what their errors say."""

import msgspec
import pytest

from tfsteps import spec
from tfsteps.spec import SpecError
from tfsteps.spec.overrides import differences
from tfsteps.systems import registry

JOB = """\
name: good
command: [python, train.py]
args: [--epochs, "3"]
env: {LR: "0.1"}
restart: never
roles:
  worker: {replicas: 2}
"""


def overridden(*overrides):
    return spec.parse(JOB, "job.yaml", registry.options(), overrides)


def refusal(*overrides):
    with pytest.raises(SpecError) as caught:
        overridden(*overrides)
    return str(caught.value)


def test_values_are_yaml_and_replace_whole_fields():
    job = overridden("env.LR=0.3", "roles.worker.replicas=4", 'args=[--epochs,"5"]')
    assert (job.env, job.roles.worker.replicas, job.args) == ({"LR": "0.3"}, 4, ("--epochs", "5"))


@pytest.mark.parametrize("path", ["args.1", "args[1]"])
def test_an_element_of_a_list_is_set_by_its_position(path):
    assert overridden(f"{path}=5").args == ("--epochs", "5")


def test_an_element_of_a_list_of_a_recorded_job_is_set_by_its_position():
    recorded = msgspec.to_builtins(overridden("volumes=[{pvc: data, mount: /data}]"))  # its lists are tuples
    job = spec.from_plain(recorded, "run r", registry.options(), ["args.1=5", "volumes.0.mount=/other"])
    assert (job.args, job.volumes[0].mount, recorded["args"]) == (("--epochs", "5"), "/other", ("--epochs", "3"))


def test_a_number_in_a_text_field_is_taken_as_written():
    assert overridden("env.LR=1e-3", "env.N=007").env == {"LR": "1e-3", "N": "007"}


def test_missing_parents_are_added_and_null_removes_a_field():
    job = overridden("roles.evaluator.command=[python, evaluate.py]", "deadlines.running=2h", "env.LR=null")
    assert (job.roles.evaluator.command, job.deadlines.running, job.env) == (("python", "evaluate.py"), 7200, {})


def test_an_empty_value_is_empty_text():
    assert overridden("env.LR=").env == {"LR": ""}


def test_a_value_may_contain_equals_signs_and_dots_and_a_key_may_be_quoted():
    job = overridden("env.OPTS=a=b.c", 'labels."example.com/team"=vision')
    assert (job.env["OPTS"], job.labels) == ("a=b.c", {"example.com/team": "vision"})


@pytest.mark.parametrize("text", ["#ff0000", "a #b", "  # b", "---", "--- a"])
def test_a_value_that_yaml_would_cut_is_refused_unless_it_is_quoted(text):
    message = (
        "--set env.A: is cut by YAML, at a comment (#) or a mark of a document (---). Quote the value for YAML too:"
    )
    assert refusal(f"env.A={text}").startswith(message)
    assert overridden(f'env.A="{text}"').env["A"] == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a#b", "a#b"),
        ("1e3", "1e3"),
        ("!!str 1", "1"),
        ("'a' # b", "a"),
        ("|\n  a #b", "a #b"),
        ("a\n# b", "a"),
        (" ", ""),
    ],
)
def test_a_comment_that_is_meant_as_one_is_none_of_the_value(text, value):
    assert overridden(f"env.A={text}").env["A"] == value


def test_of_two_overrides_of_a_field_the_last_one_holds():
    assert overridden("env={A: 1}", "env.A=2", "env.B=3").env == {"A": "2", "B": "3"}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "roles.worker.replicas=0",
            (
                "--set roles.worker.replicas: 0 is out of range. Allowed: a whole number from 1 to 10000; "
                "leave a role without replicas out. Choose a value in that range."
            ),
        ),
        ("rolse.worker.replicas=3", "--set rolse.worker.replicas: rolse: is not a known field. Write `roles`."),
        ("roles.wroker={}", "--set roles.wroker: is not a known field. Write `worker`."),
        (
            "args.5=1",
            (
                "--set args.5: args: has no element 5. Allowed: a position from 0 to 1. "
                "Set the whole list: --set args='[a, b]'."
            ),
        ),
        ("name.x=1", "--set name.x: name: is text, and has no field 'x'. Set name itself."),
        (
            "env.A=@x",
            (
                "--set env.A: is not YAML: found character that cannot start any token. "
                "Quote the value for YAML too: --set env.A='\"...\"'."
            ),
        ),
        ("replicas", "--set: 'replicas' is not a path and a value. Write PATH=VALUE, such as --set"),
        ("a..b=1", "--set: 'a' has a path that cannot be read. Write PATH=VALUE"),
        ("=1", "--set: '' has a path that cannot be read."),
    ],
)
def test_an_error_names_the_option_the_field_the_value_and_the_fix(override, message):
    assert refusal(override).startswith(message)


def test_a_rule_between_fields_names_the_option_and_other_problems_their_line():
    assert refusal("backoff_limit=3", "name=good", "tensorboard.idle=never").splitlines() == [
        (
            "--set tensorboard.idle: 'never' is not a duration. Allowed: a duration above zero, up to 3650d: seconds, "
            "or numbers with s, m, h or d. Write something like 30m."
        ),
        (
            "--set backoff_limit: 3 allows restarts that `restart: never` rules out. Write `restart: on_failure`, or "
            "remove it."
        ),
    ]
    with pytest.raises(SpecError, match=r"(?m)^job.yaml:7: roles.worker.replicas: -1 is out of range"):
        spec.parse(JOB.replace("replicas: 2", "replicas: -1"), "job.yaml", registry.options(), ["env.LR=1"])


def test_an_override_corrects_a_mistake_of_the_file():
    text = JOB.replace("replicas: 2", "replicas: many")
    job = spec.parse(text, "job.yaml", registry.options(), ["roles.worker.replicas=2"])
    assert job.roles.worker.replicas == 2


def test_the_value_of_an_override_is_not_in_the_name_of_the_option():
    assert "hunter2" not in refusal("env.TOKEN={secret: hunter2}")


def test_a_job_does_not_change_with_the_plain_data_that_it_was_read_from():
    plain = {"name": "a", "roles": {"worker": {}}, "pod": {"spec": {"hostNetwork": True}}}
    job = spec.from_plain(plain)
    plain["pod"]["spec"]["hostNetwork"] = False
    assert job.pod == {"spec": {"hostNetwork": True}}


def test_plain_data_is_not_changed():
    plain = {"name": "good", "command": ["true"], "roles": {"worker": {}}}
    spec.from_plain(plain, "job", None, ["roles.worker.replicas=2"])
    assert plain["roles"] == {"worker": {}}


def test_differences_are_paths_of_values():
    old = {"env": {"A": "1"}, "args": ["x"], "roles": {"worker": {}}}
    new = {"env": {"A": "2", "B": "3"}, "args": ["y"], "roles": {"worker": {}, "ps": {"replicas": 2}}}
    assert differences(old, new) == [("env", "A"), ("env", "B"), ("args",), ("roles", "ps", "replicas")]
    assert differences({}, {"gang": {}}) == [("gang",)]


@pytest.mark.parametrize("position", ["9" * 5000, "²", "٣", "-1"])
def test_a_position_that_is_no_number_of_the_list(position):
    job = "name: a\ncommand: [python]\nargs: [x]\nroles: {worker: {}}\n"
    with pytest.raises(spec.SpecError, match=r"Set the whole list: --set args="):
        spec.parse(job, "job", {}, [f"args.{position}=1"])
