"""What is published: README's links on a package index, the files of sdist and wheel, the launcher's image name."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from page_links import Metadata, outward

ROOT = pathlib.Path(__file__).parents[2]
BASE = "https://git.example/tfsteps/blob/main/"
LINK = re.compile(r"\]\(([^)\s]+)\)")


def metadata(base):
    fields = {}
    Metadata(str(ROOT), {"source-url": base}).update(fields)
    return fields


def test_links_of_the_readme_begin_with_the_source_url():
    fields = metadata(BASE)
    links = LINK.findall(fields["readme"]["text"])
    assert len(links) > 20
    assert all(link.startswith(("https://", "#")) for link in links)
    assert all((ROOT / link.removeprefix(BASE)).exists() for link in links if link.startswith(BASE))
    assert fields["urls"] == {"Source": BASE, "Changelog": f"{BASE}CHANGELOG.md"}


def test_without_a_source_url_only_their_text_is_left():
    fields = metadata("")
    assert "[Install]" not in fields["readme"]["text"]
    assert "Install describes the set-up of a cluster." in " ".join(fields["readme"]["text"].split())
    assert fields["urls"] == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](../pipelines/a.py#L3)", f"[a]({BASE}pipelines/a.py#L3)"),
        ("[a](design.md)", "[a](design.md)"),
        ("[a](#there)", "[a](#there)"),
        ("[a](https://other.example)", "[a](https://other.example)"),
    ],
)
def test_a_link_on_a_page_of_the_site(text, expected):
    assert outward(text, "docs", BASE, lambda path: not path.startswith("docs/")) == expected


@pytest.mark.parametrize("builder", [SdistBuilder, WheelBuilder])
def test_what_is_distributed(builder):
    files = {file.distribution_path for file in builder(str(ROOT)).recurse_included_files()}
    tops = {path.split("/")[0] for path in files}
    assert tops <= {"components", "tfsteps", ".gitignore"} | {path.name for path in ROOT.iterdir() if path.is_file()}
    assert any(path.endswith("tfsteps/py.typed") for path in files)
    assert "tests" not in tops


@pytest.mark.parametrize(
    ("registry", "image"), [("", "tfsteps/"), ("registry.example/ml/", "registry.example/ml/tfsteps/")]
)
def test_the_registry_of_the_image_is_one_variable(registry, image):
    env = {**os.environ, "TFSTEPS_REGISTRY": registry}
    code = "from tfsteps import kfp; print(kfp.train.component_spec.implementation.container.image, kfp.IMAGE)"
    done = subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True)
    compiled, constant = done.stdout.split()
    assert compiled == constant
    assert constant.startswith(f"{image}launcher:")
