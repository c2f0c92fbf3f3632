"""Short forms of resources and volumes stand for fields of the job file, and for nothing else."""

import json

import jsonschema
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.spec.bad_specs import whole
from tfsteps import spec
from tfsteps.spec.parse import to_plain
from tfsteps.spec.schema import json_schema
from tfsteps.spec.step_inputs import plain_job

VALIDATOR = jsonschema.Draft202012Validator(json_schema())
GPUS = [
    ("2(T4)", {"gpu": 2, "gpu_type": "T4"}),
    ("2（T4）", {"gpu": 2, "gpu_type": "T4"}),  # noqa: RUF001
    ("2 ( T4 )", {"gpu": 2, "gpu_type": "T4"}),
    ("2(ascend,910B)", {"gpu": 2, "gpu_vendor": "ascend", "gpu_type": "910B"}),
    ("2（ascend，910B）", {"gpu": 2, "gpu_vendor": "ascend", "gpu_type": "910B"}),  # noqa: RUF001
    ("1(amd.com/gpu,MI300)", {"gpu": 1, "gpu_resource": "amd.com/gpu", "gpu_type": "MI300"}),
    ("0.5", {"gpu_fraction": 0.5}),
    (0.5, {"gpu_fraction": 0.5}),
    ("0.25(T4)", {"gpu_fraction": 0.25, "gpu_type": "T4"}),
    ("-1", {"all_gpus": True}),
    (-1, {"all_gpus": True}),
    (2, {"gpu": 2}),
]
RANGES = [
    ({"cpu": "2~4"}, {"cpu": 2, "limits": {"cpu": 4}}),
    ({"cpu": "500m ~ 2"}, {"cpu": "500m", "limits": {"cpu": 2}}),
    ({"cpu": "1~2", "memory": "4G~8G"}, {"cpu": 1, "memory": "4G", "limits": {"cpu": 2, "memory": "8G"}}),
    (
        {"cpu": "1~2", "memory": 2**30, "limits": {"memory": "2Gi"}},
        {"cpu": 1, "memory": "1Gi"} | {"limits": {"cpu": 2, "memory": "2Gi"}},
    ),
]
VOLUMES = [
    ("a(pvc):/mnt", {"pvc": "a", "personal": True}),
    ("a（pvc）：/mnt", {"pvc": "a", "personal": True}),  # noqa: RUF001
    ("a (pvc-share) : /mnt", {"pvc": "a"}),
    ("a(storage):/mnt", {"pvc": "a"}),
    ("/host/path(hostpath):/mnt", {"host_path": "/host/path"}),
    ("a(configmap):/mnt", {"config_map": "a"}),
    ("a(secret):/mnt", {"secret": "a"}),
    ("1.2.3.4/a/b(nfs):/mnt", {"nfs": {"server": "1.2.3.4", "path": "/a/b"}}),
    ("4G(memory):/mnt", {"empty_dir": "4G", "in_memory": True}),
    ("4Gi(memory):/mnt", {"empty_dir": "4Gi", "in_memory": True}),
]  # fmt: skip


def plain(**fields):
    """Return a job as it is printed, and check that the schema of editors takes what was written."""
    text = whole(yaml.safe_dump(fields, allow_unicode=True))
    assert not list(VALIDATOR.iter_errors(yaml.safe_load(text)))
    job = spec.parse(text)
    printed = to_plain(job)
    assert spec.from_plain(printed) == job, "what is printed is the same job"
    return printed


@pytest.mark.parametrize(("gpu", "fields"), GPUS)
def test_a_number_of_gpus_can_name_their_vendor_and_type(gpu, fields):
    assert plain(resources={"gpu": gpu})["resources"] == fields


@pytest.mark.parametrize(("written", "fields"), RANGES)
def test_a_range_is_request_and_limit(written, fields):
    assert plain(resources=written)["resources"] == fields


@pytest.mark.parametrize(("text", "fields"), VOLUMES)
def test_a_volume_can_be_one_text(text, fields):
    assert plain(volumes=[text])["volumes"] == [{"mount": "/mnt", **fields}]


def test_the_fields_of_a_role_have_short_forms_too():
    roles = {"worker": {"resources": {"gpu": "2(T4)"}, "volumes": ["a(storage):/mnt"]}}
    [role] = plain(roles=roles)["roles"].values()
    assert role == {"resources": {"gpu": 2, "gpu_type": "T4"}, "volumes": [{"pvc": "a", "mount": "/mnt"}]}


def test_a_claim_can_be_mounted_twice():
    volumes = plain(volumes=["a(pvc):/mnt", "a(storage):/mnt", "a(storage):/all"])["volumes"]
    assert [volume["mount"] for volume in volumes] == ["/mnt", "/mnt", "/all"], "the first is below /mnt"


def test_an_override_can_be_a_short_form():
    job = spec.parse(whole("resources: {gpu: 1}"), overrides=["resources.gpu=2(T4)", "resources.cpu=2~4"])
    assert to_plain(job)["resources"] == {"gpu": 2, "gpu_type": "T4", "cpu": 2, "limits": {"cpu": 4}}


def test_the_inputs_of_a_step_can_be_short_forms():
    inputs = {"name": "a", "workers": 1, "cpu": "2~4", "memory": "4G~8G", "spec": {"volumes": ["a(storage):/mnt"]}}
    base = {"volumes": [{"pvc": "a", "mount": "/mnt"}, {"pvc": "b", "mount": "/b"}]}
    printed = to_plain(spec.from_plain(plain_job(inputs, base)))
    assert printed["resources"] == {"cpu": 2, "memory": "4G", "limits": {"cpu": 4, "memory": "8G"}}
    assert printed["volumes"] == base["volumes"]


def test_two_volumes_at_one_path_are_a_conflict_in_any_form():
    with pytest.raises(spec.SpecError, match="is set on the task"):
        plain_job({"spec": {"volumes": ["a(storage):/mnt"]}}, {"volumes": [{"pvc": "b", "mount": "/mnt"}]})


names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
types = st.from_regex(r"[A-Za-z][-A-Za-z0-9.]{0,8}", fullmatch=True)


@settings(deadline=None)
@given(
    count=st.integers(1, 128), vendor=names | st.none(), kind=types, low=st.integers(1, 999), more=st.integers(0, 99)
)
@example(count=1, vendor="08", kind="A", low=1, more=0)
def test_any_resources_are_the_fields_that_they_stand_for(count, vendor, kind, low, more):
    gpu = f"{count}({vendor},{kind})" if vendor else f"{count}({kind})"
    written = {"gpu": gpu, "cpu": f"{low}m~{low + more}m", "memory": f"{low}Mi~{low + more}Mi"}
    fields = {"gpu": count, "gpu_type": kind, "cpu": f"{low}m", "memory": f"{low}Mi"}
    fields |= {
        "limits": {"cpu": f"{low + more}m", "memory": f"{low + more}Mi"},
        **({"gpu_vendor": vendor} if vendor else {}),
    }
    # JSON puts each text in quotes; `08`, which safe_dump does not quote, is refused as ambiguous
    one, other = (spec.parse(whole(f"resources: {json.dumps(part)}\n")) for part in (written, fields))
    assert one == other == spec.from_plain(to_plain(one))


@settings(deadline=None)
@given(st.text(alphabet="2(T4),.-~1aGpvc:/ ", max_size=12))
def test_any_text_is_read_or_refused_with_its_field(text):
    for fields in ({"resources": {"gpu": text}}, {"resources": {"memory": text}}, {"volumes": [text]}):
        try:
            job = spec.parse(whole(yaml.safe_dump(fields)))
        except spec.SpecError as error:
            outside = [problem for problem in error.problems if problem.path[0] not in fields]
        else:
            outside = [] if spec.from_plain(to_plain(job)) == job else [job]
        assert not outside
