"""A bad job file is refused with every problem at once: its line, its field, and what to do."""

import pytest

from tests.unit.spec.bad_specs import BAD_SPECS, whole
from tfsteps import spec
from tfsteps.systems import registry

OPTIONS = registry.options()


def problems(text):
    with pytest.raises(spec.SpecError) as caught:
        spec.parse(text, "job.yaml", OPTIONS)
    return caught.value.problems


@pytest.mark.parametrize("row", BAD_SPECS, ids=[text[-60:] for text, _, _ in BAD_SPECS])
def test_one_fault_is_one_problem_with_its_field_line_and_advice(row):
    text, path, piece = row
    [problem] = problems(text)
    assert spec.dotted(problem.path) == path
    assert problem.line == text.count("\n") + 1
    assert piece in str(problem)
    assert len(str(problem)) < 800
    assert str(problem).isprintable()


def test_there_are_many_and_none_twice():
    texts = [text for text, _, _ in BAD_SPECS]
    assert len(set(texts)) == len(texts) >= 220


BOMB = "\n".join(
    ["name: mnist", "a: &a [x, x, x, x, x, x, x, x, x, x]"]
    + [f"{name}: &{name} [{', '.join(['*' + base] * 10)}]" for base, name in zip("abcde", "bcdef", strict=True)]
)
"""A small text of a million values."""

SEVERAL = [
    ("env: {A=b}", ["env.A=b", "env.A=b"]),
    ("roles: {ps: {}}", ["roles", "roles.ps"]),
    ("roles: {ps: {}, evaluator: {}}", ["roles", "roles.ps"]),
    ("output_dir: ${HOME}/runs", ["output_dir", "output_dir"]),
    ("volumes: [{pvc: X}, {mount: y}]", ["volumes[0].mount", "volumes[0].pvc", "volumes[1].mount"]),
    ("imag: a\nrestart: Never\nargs: 5\nqueue: ''", ["imag", "restart", "args", "queue"]),
    (
        "priority: x\nroles:\n  worker: {replicas: 0}\n  ps: {image: A}",
        ["priority", "roles.worker.replicas", "roles.ps.image"],
    ),
    ("restart: 5\nbackoff_limit: 3\npriority: 5.5", ["restart", "priority"]),
    ("systems: {lokal: {}, local: {grace: x}}\nkeep_for: x", ["systems.lokal", "systems.local.grace", "keep_for"]),
    ("env: {A: 1, A: 2, TF_CONFIG: x}\nlabels: {A: [x]}", ["env.A", "env.TF_CONFIG", "labels.A"]),
    (
        "resources: {memory: 1Gi, shared_memory: 2Gi, limits: {memory: 512Mi}}\ngpu: 1",
        ["resources.shared_memory", "resources.limits.memory", "gpu"],
    ),
    ("deadlines: {queue: 2h, running: 3h, total: 1h}", ["deadlines.queue", "deadlines.running"]),
]


@pytest.mark.parametrize(("text", "paths"), SEVERAL)
def test_all_problems_of_a_file_come_at_once_in_its_order(text, paths):
    assert [spec.dotted(problem.path) for problem in problems(whole(text))] == paths


FOLLOWS = [
    ("roles: {worker: {replicas: x}, chief: {}}\nsuccess: all_workers", ["roles.worker.replicas"]),
    ("roles: {master: {}, worker: {}, ps: {}}\nrestart: on_failure", ["roles.master"]),
    ("restart: OnFailure\nbackoff_limit: 3", ["restart"]),
    ("deadlines: {total: 1 hour, running: 30d}", ["deadlines.total"]),
    ("resources: {memory: 1GB, shared_memory: 2Gi}", ["resources.memory"]),
    ("resources: {gpu: one, gpu_type: T4}", ["resources.gpu"]),
    ("resources: {memory: 1Gi, limits: {memory: 2GB}, shared_memory: 2Gi}", ["resources.limits.memory"]),
    ("env: {A: {secret: S, key: k}}", ["env.A.secret"]),
    ("volumes: [{pvc: X, mount: /y}]", ["volumes[0].pvc"]),
    ("tolerations: [{key: a, effect: noexecute, seconds: 5}]", ["tolerations[0].effect"]),
    ("Name: x", ["Name"]),
]


@pytest.mark.parametrize(("text", "paths"), FOLLOWS)
def test_what_only_follows_from_a_problem_is_not_reported(text, paths):
    assert [spec.dotted(problem.path) for problem in problems(whole(text))] == paths


@pytest.mark.parametrize("name", ["rols", "Roles", "replicaSpecs"])
def test_a_misspelt_field_is_one_problem(name):
    [problem] = problems(f"name: mnist\n{name}: {{worker: {{}}}}")
    assert (problem.path, problem.fix) == ((name,), "Write `roles`")


def test_an_alias_bomb_is_refused_before_it_goes_off():
    [problem] = problems(BOMB)
    assert "aliases that expand" in str(problem)


def test_the_message_lists_file_line_field_value_allowed_and_fix():
    with pytest.raises(spec.SpecError) as caught:
        spec.parse("name: mnist\nroles: {worker: {replicas: 0}}\nrestart: Never\n", "job.yaml")
    assert str(caught.value) == (
        "job.yaml:2: roles.worker.replicas: 0 is out of range. Allowed: a whole number from 1 to 10000; leave a role "
        "without replicas out. Choose a value in that range.\n"
        "job.yaml:3: restart: 'Never' is not one of the choices. Allowed: always, exit_code, never, on_failure. "
        "Write `never`."
    )


def test_values_of_variables_stay_out_of_messages():
    assert "hunter2" not in str(problems(whole("env: [{name: PASSWORD, value: hunter2}]"))[0])


@pytest.mark.parametrize(
    ("raw", "piece"), [(b"name: \xff\xfe", "is not UTF-8 (byte 6)"), (b"\x00" * 5_000_000, "is longer than 1 MiB")]
)
def test_files_that_are_no_text_are_refused(tmp_path, raw, piece):
    path = tmp_path / "job.yaml"
    path.write_bytes(raw)
    with pytest.raises(spec.SpecError, match=r"job\.yaml") as caught:
        spec.load(path)
    assert piece in str(caught.value)


def test_plain_data_has_no_lines():
    with pytest.raises(spec.SpecError) as caught:
        spec.from_plain({"name": "mnist", "roles": {"worker": {"replicas": "2"}}}, "inputs")
    assert str(caught.value).startswith("inputs: roles.worker.replicas: '2' is text, because of its quotes, and ")


@pytest.mark.parametrize("field", [{"args": [10**5000]}, {"backoff_limit": 10**5000}])
def test_a_number_that_python_does_not_write_is_refused(field):
    with pytest.raises(spec.SpecError, match="a number of more than 60 digits"):
        spec.from_plain({"name": "mnist", "roles": {"worker": {}}, **field})


@pytest.mark.parametrize("value", [None, 5, "x", [], [{}]])
def test_plain_data_that_is_no_mapping_is_refused(value):
    with pytest.raises(spec.SpecError, match=r"expected a mapping|has no value"):
        spec.from_plain(value)


def test_options_are_read_where_they_are_needed():
    job = spec.from_plain({"name": "mnist", "roles": {"worker": {}}, "systems": {"local": {"grace": "x"}}})
    with pytest.raises(spec.SpecError, match=r"systems\.local\.grace: 'x' is not a duration"):
        spec.options_of(job, "local", OPTIONS["local"])
