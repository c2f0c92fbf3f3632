"""The table that the lint goes by has all fields of each Argo that the test cluster can run.

It also has those of other supported versions: what is valid on one of them is not refused.
"""

import json

import pytest

from tests.argo.fields import merged, table
from tests.cluster.build import module_folder
from tests.cluster.platforms import PLATFORMS
from tfsteps.engines.argo.lint import FILE

pytestmark = pytest.mark.cluster  # needs Go and Argo's module, as the cluster does


def test_fields(golden):
    known = json.loads(FILE.read_text())
    for versions in PLATFORMS.values():
        known = merged(known, table(schema(module_folder("argo", versions))))
    lines = [f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in known.items()]
    golden(FILE, "{\n" + ",\n".join(lines) + "\n}\n")


def schema(folder):
    return json.loads((folder / "api/jsonschema/schema.json").read_text())
