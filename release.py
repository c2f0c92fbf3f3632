"""Builds what a release publishes, into dist/: `make release`. docs/contribute/release.md has the steps of a release.

All of it is built from the files of the commit HEAD and dated by it: a commit gives the same bytes on each machine with
the packages of its requirements.lock.
"""

import gzip
import hashlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent
IMAGES = {"launcher": "requirements.txt", "tensorboard": "requirements-tensorboard.txt"}
"""The images that an installation runs, and the name of the list of packages in each Dockerfile. Others are for
tests."""


def main() -> None:
    """Write dist/: wheel, sdist, contexts and SBOMs of the images, notes of the version, SHA256SUMS.

    dist/ is replaced once all is built, and is left as it was by a refusal.
    """
    changes = _git("status", "--porcelain").decode().splitlines()
    if changes:
        sys.exit(f"{len(changes)} files differ from the commit, such as {changes[0][3:]}: commit or remove them first")
    with tempfile.TemporaryDirectory() as name:
        tree, out = pathlib.Path(name, "tree"), pathlib.Path(name, "out")
        with tarfile.open(fileobj=io.BytesIO(_git("archive", "HEAD"))) as archive:
            archive.extractall(tree, filter="data")
        version = re.search(r'(?m)^__version__ = "(.+)"', (tree / "components/tfsteps/__init__.py").read_text())[1]
        notes = _notes((tree / "CHANGELOG.md").read_text(), version)
        epoch = _git("log", "-1", "--format=%ct").decode().strip()
        environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
        build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(tree)]
        subprocess.run(build, check=True, env=environment, stdout=subprocess.DEVNULL)
        (out / f"tfsteps-{version}-notes.md").write_text(notes)
        for image in IMAGES:
            _write_context(tree / "images" / image, out, version, int(epoch))
            _write_sbom(tree / "images" / image, out, version, environment)
        files = sorted(out.iterdir())
        sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
        (out / "SHA256SUMS").write_text("".join(sums))
        shutil.rmtree(ROOT / "dist", ignore_errors=True)
        shutil.copytree(out, ROOT / "dist")
    print(*sums, sep="", end="")


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout


def _notes(changelog: str, version: str) -> str:
    """Return the changes of a version, without the heading of its section; exit if they are not all there."""
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


def _write_sbom(image: pathlib.Path, out: pathlib.Path, version: str, environment: dict[str, str]) -> None:
    """Write a CycloneDX SBOM of the packages that an image installs, each with the hashes of its files."""
    project = image / "project.toml"  # that of the repository has no version: hatchling finds it
    project.write_text(f'[project]\nname = "tfsteps"\nversion = "{version}"\nlicense = "Apache-2.0"\n')
    command = [sys.executable, "-W", "ignore", "-m", "cyclonedx_py", "requirements", str(image / "requirements.txt")]
    file = out / f"tfsteps-{version}-{image.name}-image.cdx.json"
    # Its check of what it has just written takes longer than all else here; the test of this program does it.
    options = ["--pyproject", str(project), "--output-reproducible", "--no-validate", "--output-file", str(file)]
    subprocess.run([*command, *options], check=True, env=environment, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
