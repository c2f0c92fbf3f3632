"""The pages about imports: the job file that a manifest becomes, and the commands, as a user would type them."""

import pathlib
import re
import shlex

import pytest

from tests.unit.cli.command import tfsteps

DOCS = pathlib.Path(__file__).parents[3] / "docs"
PAGES = [DOCS / "guides/import.md", DOCS / "systems/hai-users.md"]
BLOCK = re.compile(r'^```yaml title="([^"]+)"\n(.*?)^```', re.DOTALL | re.MULTILINE)
LINE = re.compile(r"^    tfsteps (.*)$", re.MULTILINE)
BLOCKS = dict(BLOCK.findall(PAGES[0].read_text()))
COMMANDS = [
    words for page in PAGES for line in LINE.findall(page.read_text()) if (words := shlex.split(line, comments=True))
]
IMPORTS = [words for words in COMMANDS if words[0] == "import" and "tfjob/mnist" not in words]


def test_the_commands():
    assert len(IMPORTS) == 5
    assert [words for words in COMMANDS if words not in IMPORTS] == [
        shlex.split("import tfjob/mnist -n team -o job.yaml"),
        shlex.split("run job.yaml --system hai"),
    ]


@pytest.mark.parametrize("words", IMPORTS, ids=" ".join)
def test_a_command(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("tfjob.yaml").write_text(BLOCKS["tfjob.yaml"])
    code, out, err = tfsteps(*words)
    [target] = out.split()
    assert (code, pathlib.Path(target).exists()) == (0, True), err
    if target != "job.yaml":
        return
    system = "hai"
    if "tfjob.yaml" in words:
        system = "kubeflow"
        assert pathlib.Path(target).read_text() == BLOCKS[target]
        assert tfsteps("validate", target, "--system", "jobset")[:2] == (0, "job.yaml: flat is fine\n")
    code, _, err = tfsteps("run", target, "--dry-run", "--system", system)
    assert code == 0, err
