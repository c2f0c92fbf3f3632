"""The JSON Schema says what the parser says, as far as a schema can."""

import json
import pathlib

import jsonschema
import msgspec
import pytest
import yaml
from hypothesis import given, settings

from tests.unit.spec.bad_fields import BAD_FIELDS
from tests.unit.spec.bad_specs import BAD_TOGETHER, whole
from tests.unit.spec.jobs import jobs
from tests.unit.spec.test_good_specs import ALLOWED, INFERRED, QUANTITIES
from tfsteps.spec import TrainingJob, yaml_text
from tfsteps.spec.schema import attributes, json_schema, structs, summary
from tfsteps.systems import registry

SCHEMA = json_schema(registry.options())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
EXAMPLES = sorted((pathlib.Path(__file__).parents[3] / "docs" / "examples").iterdir())
TYPES = structs(TrainingJob, *filter(None, registry.options().values()))


def faults(text):
    return [error.message for error in VALIDATOR.iter_errors(yaml_text.parse(text).value)]


def test_it_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert SCHEMA["title"] == "TrainingJob"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_fits(path):
    assert faults(path.read_text()) == []


@pytest.mark.parametrize("piece", [*ALLOWED, *(row[0] for row in INFERRED), *(row[0] for row in QUANTITIES)])
def test_what_the_parser_takes_fits(piece):
    assert faults(whole(piece)) == []


@settings(max_examples=40)
@given(jobs)
def test_every_job_fits(job):
    VALIDATOR.validate(json.loads(msgspec.json.encode(job)))


@pytest.mark.parametrize("row", BAD_FIELDS, ids=[text for text, _, _ in BAD_FIELDS])
def test_a_bad_field_does_not_fit(row):
    assert faults(whole(row[0]))


@pytest.mark.parametrize("row", BAD_TOGETHER, ids=[text for text, _, _ in BAD_TOGETHER])
def test_what_only_the_parser_can_see_is_marked_so(row):
    assert faults(whole(row[0])) == [], "the schema sees this one: move the row to bad_fields.py"


@pytest.mark.parametrize("type_", TYPES)
def test_every_field_is_documented_and_no_other(type_):
    assert list(attributes(type_)) == list(type_.__struct_encode_fields__)
    assert summary(type_)


def test_an_editor_shows_the_meaning_and_what_is_allowed():
    assert SCHEMA["properties"]["name"]["description"] == (
        "Prefix of the job object's name. A hash of run, task and attempt is appended.\n\n"
        "Allowed: 1 to 63 lower-case letters, digits and '-', a letter first, no '-' last."
    )
    assert SCHEMA["$defs"]["Deadlines"]["properties"]["total"]["description"].startswith("Seconds from creation")
    assert SCHEMA["$defs"]["LocalOptions"]["properties"]["grace"]["description"].startswith("Seconds between SIGTERM")


def test_every_job_system_is_named():
    assert list(SCHEMA["properties"]["systems"]["properties"]) == list(registry.NAMES)


def test_without_options_any_job_system_may_be_named():
    VALIDATOR.evolve(schema=json_schema()).validate(yaml.safe_load(whole("systems: {other: {a: 1}}")))


def test_it_is_plain_json_and_the_same_every_time():
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA
    assert json.dumps(json_schema(registry.options())) == json.dumps(SCHEMA)
