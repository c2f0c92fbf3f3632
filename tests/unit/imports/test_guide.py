"""The page shows a manifest and the job file that it becomes."""

import pathlib
import re

from tfsteps.imports.read import read_text
from tfsteps.imports.write import job_file

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "guides" / "import.md"
BLOCK = re.compile(r'^```yaml title="([^"]+)"\n(.*?)^```', re.DOTALL | re.MULTILINE)


def test_the_job_file_on_the_page():
    blocks = dict(BLOCK.findall(PAGE.read_text()))
    [job], _ = read_text(blocks["tfjob.yaml"])
    assert job_file(job) == blocks["job.yaml"]
