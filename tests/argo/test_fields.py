"""The table that the lint goes by has all fields of the Argo whose controller runs in the test cluster.

It also has those of other supported versions: what is valid on one of them is not refused.
"""

import json

import pytest

from tests.argo.fields import merged, table
from tests.cluster.build import module_folder
from tfsteps.engines.argo.schema import FILE

pytestmark = pytest.mark.cluster  # needs Go and Argo's module, as the cluster does


def test_fields(golden):
    folder = module_folder("argo", "github.com/argoproj/argo-workflows/v3")
    known = json.loads(FILE.read_text())
    lines = [f"{json.dumps(name)}: {json.dumps(of)}" for name, of in merged(known, table(schema(folder))).items()]
    golden(FILE, "{\n" + ",\n".join(lines) + "\n}\n")


def schema(folder):
    return json.loads((folder / "api/jsonschema/schema.json").read_text())
