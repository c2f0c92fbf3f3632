"""Builds what a release publishes, into dist/: `make release`. docs/contribute/release.md has the steps of a release.

All of it is built from the files of the commit HEAD and dated by it: a commit gives the same bytes on each machine with
the packages of its requirements.lock.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from typing import Any

from packaging.requirements import Requirement

from page_links import outward

ROOT = pathlib.Path(__file__).resolve().parent
IMAGES = {"launcher": "requirements.txt", "tensorboard": "requirements-tensorboard.txt"}
"""The images that an installation runs, and the name of the list of packages in each Dockerfile. Others are for
tests."""
NOBODY = re.compile(r"[\w.@-]+\.invalid\b")


def main() -> None:
    """Write dist/: wheel, sdist, contexts and SBOMs of the images, notes of the version, SHA256SUMS.

    dist/ is replaced once all is built, and is left as it was by a refusal.
    """
    parser = argparse.ArgumentParser(description="Write what a release publishes into dist/.")
    parser.add_argument("--trial", action="store_true", help="accept a SECURITY.md without an address of the publisher")
    trial = parser.parse_args().trial
    changes = _git("status", "--porcelain").decode().splitlines()
    if changes:
        sys.exit(f"{len(changes)} files differ from the commit, such as {changes[0][3:]}: commit or remove them first")
    with tempfile.TemporaryDirectory() as name:
        tree, out = pathlib.Path(name, "tree"), pathlib.Path(name, "out")
        with tarfile.open(fileobj=io.BytesIO(_git("archive", "HEAD"))) as archive:
            archive.extractall(tree, filter="data")
        version = re.search(r'(?m)^__version__ = "(.+)"', (tree / "components/tfsteps/__init__.py").read_text())[1]
        notes = _notes(tree, version)
        if (address := NOBODY.search((tree / "SECURITY.md").read_text())) and not trial:
            sys.exit(
                f"SECURITY.md tells people to report vulnerabilities to {address[0]}, which nobody reads: write your"
                " address there and commit it, or look at a release without one: `make release ARGS=--trial`"
            )
        epoch = _git("log", "-1", "--format=%ct").decode().strip()
        environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
        build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(tree)]
        subprocess.run(build, check=True, env=environment, stdout=subprocess.DEVNULL)
        (out / f"tfsteps-{version}-notes.md").write_text(notes)
        # Its check of what it has just written takes longer than all else here; the test of this program does it.
        options = ["environment", sys.executable, "--output-reproducible", "--no-validate"]
        sbom = [sys.executable, "-W", "ignore", "-m", "cyclonedx_py", *options]
        installed = subprocess.run(sbom, check=True, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for image in IMAGES:
            _write_context(tree / "images" / image, out, version, int(epoch))
            _write_sbom(json.loads(installed.stdout), tree / "images" / image, out, version)
        files = sorted(out.iterdir())
        sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
        (out / "SHA256SUMS").write_text("".join(sums))
        shutil.rmtree(ROOT / "dist", ignore_errors=True)
        shutil.copytree(out, ROOT / "dist")
    print(*sums, sep="", end="")


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout


def _notes(tree: pathlib.Path, version: str) -> str:
    """Return the changes of a version, without the heading of its section; exit if they are not all there."""
    project = tomllib.loads((tree / "pyproject.toml").read_text("utf-8"))
    base = project["tool"]["hatch"]["metadata"]["hooks"]["custom"]["source-url"]
    changelog = (tree / "CHANGELOG.md").read_text("utf-8")
    if not base:  # nothing is left of a sentence that is a link
        changelog = re.sub(r"(?m)(?<=\.)\s+\[[^\]]+\]\((?!\w+:)[^)]+\)$", "", changelog)
    changelog = outward(changelog, "", base, lambda _: True)  # the page of a release is in no folder of the repository
    sections = dict(re.findall(r"(?ms)^## (.+?)\n(.*?)(?=^## |\Z)", changelog))
    if sections.get("Unreleased", "").strip():
        sys.exit(f"CHANGELOG.md has changes under Unreleased: move them to the section of {version}")
    heading = next(
        (name for name in sections if re.fullmatch(rf"{re.escape(version)} - \d{{4}}-\d\d-\d\d", name)), None
    )
    if heading is None:
        sys.exit(
            f"CHANGELOG.md has no section of {version}: add the heading `## {version} - YYYY-MM-DD` with its changes"
        )
    return f"# tfsteps {heading}\n{sections[heading].rstrip()}\n"


def _write_context(image: pathlib.Path, out: pathlib.Path, version: str, epoch: int) -> None:
    """Write the build context of an image as an archive: all that its Dockerfile needs beside the base image."""
    [wheel] = out.glob("*.whl")
    dockerfile = (image / "Dockerfile").read_text().replace("ARG VERSION=unknown", f"ARG VERSION={version}")
    members = {
        "Dockerfile": dockerfile.encode(),
        IMAGES[image.name]: (image / "requirements.txt").read_bytes(),
        wheel.name: wheel.read_bytes(),
    }
    # Without a name and with the commit's time, the same members are the same archive.
    with (
        (out / f"tfsteps-{version}-{image.name}-image.tar.gz").open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=epoch) as stream,
        tarfile.open(fileobj=stream, mode="w") as archive,
    ):
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(data), epoch
            archive.addfile(member, io.BytesIO(data))


def _write_sbom(bom: dict[str, Any], image: pathlib.Path, out: pathlib.Path, version: str) -> None:
    """Write a CycloneDX SBOM of what an image installs.

    Args:
        bom: That of this program's environment, which has each of these packages: names, licences, dependencies.
        image: The folder of the image. Its requirements.txt pins the packages, with the hashes of their files.
        out: The folder of the release, with the wheel.
        version: The version of tfsteps.
    """
    pins = {}
    for line in re.findall(r"(?m)^\w.*", (image / "requirements.txt").read_text().replace("\\\n", "")):
        text, *hashes = re.split(r" +--hash=sha256:", line)
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate():
            pins[_name(requirement.name), str(requirement.specifier).removeprefix("==")] = hashes
    components = {component["bom-ref"]: component for component in bom["components"]}
    references = {
        reference: pins[key]
        for reference, component in components.items()
        if (key := (_name(component["name"]), component["version"])) in pins
    }
    if len(references) != len(pins):
        sys.exit(f"{sys.prefix} has not all packages of {image.name}/requirements.txt: run `make setup`")
    [wheel] = out.glob("*.whl")
    [root] = [component for component in components.values() if component["name"] == "tfsteps"]
    bom["metadata"]["component"] = {
        **{key: root[key] for key in ("description", "licenses", "name")},
        "bom-ref": f"tfsteps=={version}",
        "type": "application",
        "version": version,
        "purl": f"pkg:pypi/tfsteps@{version}",
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}],
    }
    bom["components"] = [
        {
            **{key: component[key] for key in component if key != "properties"},  # extras that other packages here need
            "externalReferences": [
                {
                    "type": "distribution",
                    "url": component["purl"],  # of any registry: the hashes are what counts
                    "hashes": [{"alg": "SHA-256", "content": content} for content in references[reference]],
                }
            ],
        }
        for reference, component in components.items()
        if reference in references
    ]
    listed = {root["bom-ref"], *references}
    bom["dependencies"] = [
        {
            "ref": item["ref"] if item["ref"] in references else f"tfsteps=={version}",
            "dependsOn": sorted(listed.intersection(item.get("dependsOn", []))),
        }
        for item in bom["dependencies"]
        if item["ref"] in listed
    ]
    file = out / f"tfsteps-{version}-{image.name}-image.cdx.json"
    file.write_text(json.dumps(bom, indent=2, sort_keys=True) + "\n")


def _name(project: str) -> str:
    """Return the name of a package as package indexes write it."""
    return re.sub(r"[-_.]+", "-", project).lower()


if __name__ == "__main__":
    main()
