"""Good job files mean what their authors wrote."""

import json
import os
import pathlib
import subprocess
import sys

import msgspec
import pytest
from hypothesis import given, settings

from tests.unit.spec.bad_specs import whole
from tests.unit.spec.jobs import jobs
from tfsteps import spec
from tfsteps.spec.pod import EnvSource, Limits, Nfs, Resources, Toleration, Volume
from tfsteps.spec.schema import structs
from tfsteps.spec.types import Gang, Outputs, Role, Roles, TensorBoard, WebhookUrl
from tfsteps.systems import registry

ROOT = pathlib.Path(__file__).parents[3]
GIB = 2**30
PATHS = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}  # with -S, no .pth file imports anything by itself


def parse(piece):
    return spec.parse(whole(piece), "job.yaml", registry.options())


def test_a_job_with_every_field_is_parsed():
    job = spec.load(ROOT / "docs" / "examples" / "mnist.yaml", registry.options())
    assert job == spec.TrainingJob(
        name="mnist",
        image="ghcr.io/acme/mnist:1.4",
        command=("python", "train.py"),
        args=("--epochs", "3"),
        env={"BATCH": "64", "TOKEN": EnvSource(secret="hub", key="token")},
        roles=Roles(
            chief=Role(),
            worker=Role(
                replicas=2,
                resources=Resources(cpu=2.0, memory=4 * GIB, gpu=1, gpu_type="T4", shared_memory=GIB),
            ),
            evaluator=Role(command=("python", "evaluate.py")),
        ),
        restart="on_failure",
        backoff_limit=3,
        success="chief",
        deadlines=spec.Deadlines(queue=1800.0, pending=600.0, running=7200.0, no_progress=1200.0, total=86400.0),
        volumes=(Volume(pvc="data", mount="/data"),),
        output_dir="/data/runs/{run_id}/{task}",
        outputs=Outputs(model="export", logs="logs", metrics={"loss": "train/loss", "accuracy": "eval/accuracy"}),
        tensorboard=TensorBoard(keep_for=86400.0, idle=3600.0),
        on_end="delete_pods",
        queue="research",
        priority=50,
        systems={"t9k": {"debug": False}},
    )


DEFAULTS = [
    (
        spec.TrainingJob,
        {
            "image": None,
            "command": (),
            "args": (),
            "code": None,
            "working_dir": None,
            "env": {},
            "resources": Resources(),
            "volumes": (),
            "node_selector": {},
            "tolerations": (),
            "labels": {},
            "annotations": {},
            "service_account": None,
            "image_pull_secrets": (),
            "image_pull_policy": None,
            "pod": {},
            "strategy": None,
            "restart": "never",
            "backoff_limit": None,
            "success": "chief",
            "deadlines": spec.Deadlines(),
            "output_dir": None,
            "outputs": Outputs(),
            "tensorboard": None,
            "on_end": None,
            "keep_for": None,
            "on_evicted": None,
            "notify": (),
            "gang": None,
            "queue": None,
            "cluster": None,
            "priority": None,
            "systems": {},
        },
    ),
    (
        Role,
        {
            "replicas": 1,
            "image": None,
            "command": None,
            "args": None,
            "working_dir": None,
            "env": {},
            "resources": None,
            "volumes": (),
            "node_selector": {},
            "tolerations": (),
            "restart": None,
            "backoff_limit": None,
            "pod": {},
        },
    ),
    (Roles, {"chief": None, "worker": None, "ps": None, "evaluator": None}),
    (spec.Deadlines, {"queue": None, "pending": None, "running": None, "no_progress": None, "total": 604800.0}),
    (Outputs, {"model": "model", "logs": "logs", "metrics": {}, "earlier_attempts": False}),
    (Gang, {"scheduler": "scheduler-plugins-scheduler", "min_available": None, "timeout": None}),
    (spec.Webhook, {"url": WebhookUrl(), "events": ("failed", "deadline"), "format": "json"}),
    (WebhookUrl, {"env": "TFSTEPS_WEBHOOK_URL"}),
    (spec.CodeSource, {"folder": ".", "digest": None, "bucket": None}),
    (TensorBoard, {"log_dir": None, "image": None, "keep_for": None, "idle": None, "via": "job"}),
    (
        Resources,
        {
            "cpu": None,
            "memory": None,
            "gpu": 0,
            "gpu_fraction": None,
            "all_gpus": False,
            "gpu_vendor": None,
            "gpu_resource": None,
            "gpu_type": None,
            "shared_memory": None,
            "limits": Limits(),
        },
    ),
    (Limits, {"cpu": None, "memory": None}),
    (EnvSource, {"secret": None, "config_map": None, "key": None, "field": None}),
    (
        Volume,
        {
            "pvc": None,
            "personal": False,
            "secret": None,
            "config_map": None,
            "host_path": None,
            "nfs": None,
            "empty_dir": None,
            "in_memory": False,
            "sub_path": None,
            "read_only": False,
        },
    ),
    (Nfs, {}),
    (Toleration, {"key": None, "operator": "Equal", "value": None, "effect": None, "seconds": None}),
]

REQUIRED = {
    spec.TrainingJob: {"name": "mnist", "roles": Roles()},
    Volume: {"mount": "/data"},
    Nfs: {"server": "nas", "path": "/data"},
}


def test_every_default_is_the_promised_one():
    promised = dict(DEFAULTS)
    assert set(promised) == set(structs(spec.TrainingJob))
    for type_, defaults in promised.items():
        required = REQUIRED.get(type_, {})
        built = type_(**required)
        assert {name: getattr(built, name) for name in type_.__struct_fields__} == required | defaults


INFERRED = [
    ("roles: {worker: {}}", "single", ("worker", 0)),
    ("roles: {chief: {}}", "single", ("chief", 0)),
    ("roles: {chief: {}, evaluator: {}}", "single", ("chief", 0)),
    ("roles: {worker: {replicas: 2}}", "multi_worker_mirrored", ("worker", 0)),
    ("roles: {chief: {}, worker: {}}", "multi_worker_mirrored", ("chief", 0)),
    ("roles: {chief: {}, worker: {}, ps: {}}", "parameter_server", ("chief", 0)),
    ("roles: {worker: {}, ps: {}}\nstrategy: between_graph", "between_graph", ("worker", 0)),
]


@pytest.mark.parametrize(("piece", "how", "decisive_replica"), INFERRED)
def test_strategy_and_decisive_replica_follow_from_the_roles(piece, how, decisive_replica):
    job = parse(piece)
    assert (job.effective_strategy, job.decisive_replica) == (how, decisive_replica)


@pytest.mark.parametrize(
    ("piece", "backoff"),
    [
        ("", 0),
        ("restart: never\nbackoff_limit: 0", 0),
        ("restart: always", 3),
        ("roles: {chief: {}, worker: {replicas: 2, restart: on_failure}}", 3),
        ("restart: on_failure\nroles: {worker: {replicas: 2, restart: never}}", 0),
        ("restart: on_failure\nbackoff_limit: 0", 0),
        ("restart: on_failure\nbackoff_limit: 7", 7),
    ],
)
def test_the_backoff_limit_follows_from_the_restart_policy(piece, backoff):
    assert parse(piece).effective_backoff_limit == backoff


@pytest.mark.parametrize(
    "written",
    [
        "1e3",
        "64",
        "007",
        "0x1F",
        "0o17",
        "1_000",
        ".5",
        "1.",
        "-1",
        "1:30",
        "on",
        "yes",
        "no",
        "off",
        "true",
        "False",
        ".inf",
        "=",
    ],
)
def test_text_is_kept_as_its_author_wrote_it(written):
    job = parse(f"env: {{A: {written}}}\nargs: [{written}]\nlabels: {{a: '1', b: x}}\nannotations: {{a: {written}}}")
    assert (job.env["A"], job.args, job.annotations["a"]) == (written, (written,), written)


QUANTITIES = [
    ("deadlines: {total: 90}", lambda job: job.deadlines.total, 90.0),
    ("deadlines: {total: '90'}", lambda job: job.deadlines.total, 90.0),
    ("deadlines: {total: 0.5}", lambda job: job.deadlines.total, 0.5),
    ("deadlines: {total: 30s}", lambda job: job.deadlines.total, 30.0),
    ("deadlines: {total: 1h30m}", lambda job: job.deadlines.total, 5400.0),
    ("deadlines: {total: 1.5d}", lambda job: job.deadlines.total, 129600.0),
    ("resources: {memory: 4Gi}", lambda job: job.resources.memory, 4 * GIB),
    ("resources: {memory: 1.5Gi}", lambda job: job.resources.memory, 3 * GIB // 2),
    ("resources: {memory: 500M}", lambda job: job.resources.memory, 500 * 10**6),
    ("resources: {memory: 1048576}", lambda job: job.resources.memory, 2**20),
    ("resources: {memory: 1e9}", lambda job: job.resources.memory, 10**9),
    ("resources: {memory: 4Gi}", lambda job: job.resources.memory_limit, 4 * GIB),
    ("resources: {memory: 4Gi, limits: {memory: 5Gi}}", lambda job: job.resources.memory_limit, 5 * GIB),
    ("resources: {cpu: 2}", lambda job: job.resources.cpu_limit, 2.0),
    ("resources: {cpu: 500m}", lambda job: job.resources.cpu, 0.5),
    ("resources: {cpu: '0.5'}", lambda job: job.resources.cpu, 0.5),
    ("resources: {cpu: .5}", lambda job: job.resources.cpu, 0.5),
    ("resources: {memory: 1Gi, shared_memory: 1Gi}", lambda job: job.resources.shared_memory, GIB),
]


@pytest.mark.parametrize(("piece", "field", "value"), QUANTITIES)
def test_quantities_are_read_once_and_kept_as_plain_numbers(piece, field, value):
    assert field(parse(piece)) == value
    assert type(field(parse(piece))) is type(value)


ALLOWED = [
    "command: [bash, -c, python train.py]",
    "command: [/opt/my tools/train]",
    "command: [/bin/sh]\nargs: [-c, $CMD]",
    "args: [$(POD_NAME), --note=a b, -x y, 'costs $5']",
    "image: localhost:5000/acme/mnist",
    "image: mnist@sha256:" + "0" * 64,
    "volumes: [{pvc: a.b-c, mount: /y}, {pvc: z, mount: /yy}]",
    "volumes: [{empty_dir: 1Gi, mount: /dev/shm, in_memory: true}]",
    "output_dir: /runs/{{literal}}/{name}-{run_id}-{task}",
    "output_dir: s3://bucket/{name}/{run_id}/",
    "output_dir: hdfs:///runs/{run_id}",
    "output_dir: runs:/x",
    "outputs: {model: a..b, logs: a/..b}",
    "tolerations: [{operator: Exists}]",
    "labels: {example.com/team: vision, empty: ''}",
    "annotations: {note: 'any text, with spaces'}",
    "env: {TF_CPP_MIN_LOG_LEVEL: 2, tfsteps: x}",
    "on_end: keep\nkeep_for: 1d",
    "on_evicted: 30m",
    "on_evicted: stop",
    "restart: always",
    "base: &base {A: b}\n".replace("base: &base {A: b}\n", "env: &base {A: b}\nlabels: *base"),
    "roles:\n  chief: &r {resources: {cpu: 1}}\n  worker: {<<: *r, replicas: 2}",
]


@pytest.mark.parametrize("piece", ALLOWED)
def test_unusual_but_valid_jobs_are_accepted(piece):
    assert parse(piece).name == "mnist"


def test_null_is_as_good_as_left_out_and_nothing_at_all_is_not():
    assert parse("image: null\nresources: {cpu: ~}") == parse("")
    with pytest.raises(spec.SpecError, match="image: has no value"):
        parse("image:")


def test_a_merged_mapping_is_overridden_by_what_stands_beside_it():
    worker = parse("roles:\n  chief: &r {image: a, working_dir: b}\n  worker: {<<: *r, image: c}").roles.worker
    assert (worker.image, worker.working_dir) == ("c", "b")


def test_json_is_read_too_tabs_and_surrogate_pairs_included():
    text = '{\n\t"name": "mnist",\n\t"roles": {"worker": {}},\n\t"env": {"A": "\\ud83d\\ude00\\t", "B": 1e3}\n}'
    assert spec.parse(text).env == {"A": "\U0001f600\t", "B": "1e3"}


@pytest.mark.parametrize(
    "text",
    [
        "name: mnist\r\nroles: {worker: {}}\r\nargs: [\U0001f600]\r\n",
        '{\r\n\t"name": "mnist",\r\n\t"roles": {"worker": {}}, "args": ["\\ud83d\\ude00"]\r\n}\r\n',
    ],
)
def test_a_byte_order_mark_and_windows_lines_are_no_part_of_the_job(tmp_path, text):
    path = tmp_path / "job.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert spec.load(path) == parse("args: [\U0001f600]")


def test_options_have_their_defaults_filled_in():
    local = registry.options()["local"]
    assert spec.options_of(parse("systems: {local: {grace: 5s}}"), "local", local) == local(grace=5.0)
    assert spec.options_of(parse(""), "local", local) == local()


@settings(max_examples=60)
@given(jobs)
def test_a_job_survives_plain_data_and_json(job):
    plain = msgspec.to_builtins(job)
    assert spec.from_plain(plain) == job
    assert spec.parse(json.dumps(plain)) == job
    assert spec.parse(msgspec.json.encode(job).decode()) == job


def test_zero_false_and_empty_text_survive():
    job = parse(
        "env: {A: ''}\nargs: ['', 0, false]\nbackoff_limit: 0\npriority: 0\nlabels: {a: ''}\n"
        "systems: {kubeflow: {suspend: false, service_host: ''}}\npod: {spec: {hostNetwork: false, priority: 0}}"
    )
    assert spec.from_plain(msgspec.to_builtins(job)) == job
    assert job.args == ("", "0", "false")
    assert (job.backoff_limit, job.priority, job.env["A"], job.labels["a"]) == (0, 0, "", "")
    assert job.systems["kubeflow"] == {"suspend": False, "service_host": ""}
    assert job.pod["spec"] == {"hostNetwork": False, "priority": 0}


def test_plain_data_needs_neither_yaml_nor_difflib_nor_pathlib():
    code = (
        "import sys; from tfsteps import spec\n"
        "spec.from_plain({'name': 'mnist', 'roles': {'worker': {'replicas': 2}}})\n"
        "print(sorted({'yaml', 'difflib', 'pathlib', 'jsonschema', 'tfsteps.systems'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, env=PATHS)
    assert ran.stdout == "[]\n"
