"""`make release`: what it builds, twice the same; what it refuses."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement

from tfsteps import __version__ as version

ROOT = pathlib.Path(__file__).parents[3]
SECTION = f"""# Changelog

## Unreleased

## {version} - 2026-11-26
### Jobs
- A change. [Guide](docs/guides/a.md), and [one](https://a.example).
- Another. [Page](docs/b.md)

## 0.0.1 - 2026-01-01
- Older.
"""
PARTS = [
    "components",
    "images",
    "release.py",
    "page_links.py",
    "pyproject.toml",
    "README.md",
    "SECURITY.md",
    "LICENSE",
    ".gitignore",
]
COMMITTER = {"GIT_COMMITTER_DATE": "2026-11-26T12:00:00Z", "GIT_AUTHOR_DATE": "2026-11-26T12:00:00Z"}


def clone(folder, changelog=SECTION):
    """Return a repository whose one commit has what a release is built from, as this tree has it."""
    folder.mkdir()
    for name in PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(ROOT / name, folder / name)
    (folder / "CHANGELOG.md").write_text(changelog)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.example"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "A commit"]):
        subprocess.run([*git, *command], cwd=folder, check=True, env={**os.environ, **COMMITTER})
    return folder


def release(folder, options=("--trial",), **environment):
    command = [sys.executable, "release.py", *options]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, check=False, capture_output=True, text=True, umask=0o77
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the folder dist/ of a release."""
    folder = clone(tmp_path_factory.mktemp("release") / "one")
    done = release(folder)
    assert done.returncode == 0, done.stderr
    assert subprocess.run(["git", "status", "--porcelain"], cwd=folder, check=True, capture_output=True).stdout == b""
    return folder / "dist"


def test_a_release_has_these_files_with_their_checksums(built):
    images = [
        f"tfsteps-{version}-{image}-image.{kind}"
        for image in ("launcher", "tensorboard")
        for kind in ("cdx.json", "tar.gz")
    ]
    packages = [f"tfsteps-{version}-py3-none-any.whl", f"tfsteps-{version}.tar.gz"]
    assert {file.name for file in built.iterdir()} == {*images, *packages, f"tfsteps-{version}-notes.md", "SHA256SUMS"}
    sums = dict(line.split("  ")[::-1] for line in (built / "SHA256SUMS").read_text().splitlines())
    assert sums == {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in built.iterdir()
        if file.name != "SHA256SUMS"
    }


def test_notes_are_the_section_of_the_version_without_links_into_the_repository(built):
    notes = (built / f"tfsteps-{version}-notes.md").read_text()
    assert notes.splitlines() == [
        f"# tfsteps {version} - 2026-11-26",
        "### Jobs",
        "- A change. Guide, and [one](https://a.example).",
        "- Another.",
    ]


def test_the_same_commit_gives_the_same_bytes(built, tmp_path):
    again = clone(tmp_path / "a longer name")
    for file in again.rglob("*.py"):
        os.utime(file, (0, 1_000_000_000))
    done = release(again, TZ="Asia/Tokyo", PYTHONHASHSEED="1", LC_ALL="C", SOURCE_DATE_EPOCH="1")
    assert done.returncode == 0, done.stderr
    assert (again / "dist/SHA256SUMS").read_text() == (built / "SHA256SUMS").read_text()


@pytest.mark.parametrize("image", ["launcher", "tensorboard"])
def test_a_context_has_what_its_dockerfile_copies(built, image):
    with tarfile.open(built / f"tfsteps-{version}-{image}-image.tar.gz") as archive:
        files = {member.name: archive.extractfile(member).read() for member in archive}
    dockerfile = files.pop("Dockerfile").decode()
    copied = [name for line in re.findall(r"(?m)^COPY (?!--from)(.*) \S+$", dockerfile) for name in line.split()]
    assert sorted(files) == sorted(name.replace("*", f"{version}-py3-none-any") for name in copied)
    assert f"ARG VERSION={version}\n" in dockerfile
    [wheel] = [name for name in files if name.endswith(".whl")]
    assert files[wheel] == (built / wheel).read_bytes()


@pytest.mark.parametrize("image", ["launcher", "tensorboard"])
def test_an_sbom_lists_what_the_image_installs(built, image):
    text = (built / f"tfsteps-{version}-{image}-image.cdx.json").read_text()
    bom = json.loads(text)
    root = bom["metadata"]["component"]
    wheel = hashlib.sha256((built / f"tfsteps-{version}-py3-none-any.whl").read_bytes()).hexdigest()
    assert (root["name"], root["version"], root["hashes"][0]["content"]) == ("tfsteps", version, wheel)
    pins = {}
    for line in re.findall(r"(?m)^\w.*", (ROOT / f"images/{image}/requirements.txt").read_text().replace("\\\n", "")):
        pin = Requirement(line.partition(" --hash")[0])
        if pin.marker is None or pin.marker.evaluate():
            pins[pin.name, str(pin.specifier)[2:]] = set(re.findall(r"sha256:(\w{64})\b", line))
    hashes = {
        (part["purl"].partition("/")[2].partition("@")[0], part["version"]): {
            item["content"] for item in part["externalReferences"][0]["hashes"]
        }
        for part in bom["components"]
    }
    assert hashes == pins
    assert [part["name"] for part in bom["components"] if not part.get("licenses")] in ([], ["protobuf"])
    assert max(len(part.get("description", "")) for part in bom["components"]) < 200
    dependencies = {item["ref"]: item["dependsOn"] for item in bom["dependencies"]}
    assert set(dependencies) == {root["bom-ref"], *(part["bom-ref"] for part in bom["components"])}
    assert {"launcher": "obstore", "tensorboard": "boto3"}[image] in str(dependencies[root["bom-ref"]])
    if image == "launcher":
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def test_a_release_without_an_address_for_reports_of_vulnerabilities_is_refused(tmp_path):
    folder = clone(tmp_path / "a")
    done = release(folder, options=())
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "SECURITY.md tells people to report vulnerabilities to security@tfsteps.invalid, which"
    )
    assert not (folder / "dist").exists()


def test_a_tree_with_changes_is_refused(tmp_path):
    folder = clone(tmp_path / "a")
    (folder / "new.py").touch()
    done = release(folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "1 files differ from the commit, such as new.py: commit or remove them first\n"
    assert not (folder / "dist").exists()


@pytest.mark.parametrize(
    ("changelog", "message"),
    [
        (SECTION.replace(version, "9.9.9"), f"CHANGELOG.md has no section of {version}: add the heading"),
        (SECTION.replace(" - 2026-11-26", ""), f"CHANGELOG.md has no section of {version}: add the heading"),
        (
            SECTION.replace("Unreleased\n", "Unreleased\n- More.\n"),
            f"CHANGELOG.md has changes under Unreleased: move them to the section of {version}",
        ),
    ],
    ids=["no section", "no date", "more changes"],
)
def test_a_version_whose_changes_are_not_all_written_down_is_refused(tmp_path, changelog, message):
    done = release(clone(tmp_path / "a", changelog))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(message)
    assert len(done.stderr.splitlines()) == 1
