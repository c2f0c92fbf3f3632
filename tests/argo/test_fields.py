"""The table that the lint goes by is that of the Argo whose controller runs in the test cluster."""

import json

import pytest

from tests.argo.fields import table
from tests.cluster.build import module_folder
from tfsteps.engines.argo.schema import FILE

pytestmark = pytest.mark.cluster  # needs Go and Argo's module, as the cluster does


def test_fields(golden):
    folder = module_folder("argo", "github.com/argoproj/argo-workflows/v3")
    lines = [f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in table(schema(folder)).items()]
    golden(FILE, "{\n" + ",\n".join(lines) + "\n}\n")


def schema(folder):
    return json.loads((folder / "api/jsonschema/schema.json").read_text())
