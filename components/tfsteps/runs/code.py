"""Which code and which images a job ran.

The code as far as the launcher's machine can tell: a commit, or a hash of the program. Images by what a node says it
runs: a tag may be moved to another image, a digest cannot.
"""

import hashlib
import pathlib
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tfsteps.spec import RoleName

_GIT_SECONDS = 3.0
_HASH_BYTES = 64 << 20
_SHOWN = 12  # digits of a commit, hash or digest, for people


def image_of(image_id: str) -> str:
    """Return `acme/mnist@sha256:...` for an `imageID` of Kubernetes; `sha256:...` of an image that was not pulled.

    Empty = not known.
    """
    return image_id.partition("://")[2] or image_id  # docker-pullable://, of older nodes


def image_digest(image: str) -> str:
    """Return the digest in the registry; empty = the image was not pulled: its id cannot be compared with digests."""
    return image.rpartition("@")[2] if "@" in image else ""


def images_differ(images: Iterable[str]) -> bool:
    """Return whether there are certainly different ones among the images."""
    images = set(images)
    digests = {image_digest(image) for image in images} - {""}
    return len(digests) > 1 or len({image for image in images if not image_digest(image)}) > 1


def short_images(images: Sequence[str]) -> str:
    """Return images for people: `acme/mnist@sha256:0a1b2c3d4e5f`."""
    return ", ".join(image[: image.rfind(":") + 1 + _SHOWN] for image in images)


def image_line(images: Mapping[RoleName, Sequence[str]]) -> str:
    """Return the images of all roles in one line, once if they are the same; empty = none is known."""
    lines = {role: short_images(those) for role, those in images.items()}
    if len(set(lines.values())) <= 1:
        return next(iter(lines.values()), "")
    return "; ".join(f"{role} {line}" for role, line in lines.items())


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """The code of a job: in the folder that it was launched from, or shipped with it.

    Attributes:
        commit: Commit of the git repository that the folder is in; empty = it is in none, or git did not answer.
        changed: Whether files of that repository differed from the commit; None = not known.
        program: The first word of the program that is a file below the folder; empty = none is.
        digest: SHA-256 of that file, in hexadecimal digits; empty = there is none, or it is too large.
        archive: SHA-256 of the files that the job's `code` shipped, see `code_archive`; empty = it has none.
    """

    commit: str = ""
    changed: bool | None = None
    program: str = ""
    digest: str = ""
    archive: str = ""

    @classmethod
    def of(cls, folder: pathlib.Path, words: Sequence[str]) -> "Code":
        """Look at a folder, and at the program that is started there by these words. What fails is left out."""
        program, digest = _program(folder, words)
        commit = _git(folder, "rev-parse", "--verify", "HEAD")
        state = _git(folder, "status", "--porcelain", "--untracked-files=no") if commit else None
        return cls(commit=commit or "", changed=None if state is None else bool(state), program=program, digest=digest)

    def __str__(self) -> str:
        """Return `commit 0a1b2c3d4e5f with changes, train.py 9f8e7d6c5b4a, shipped 5b4a3c2d1e0f`; empty = not known."""
        changes = {None: ", changes not known", True: " with changes", False: ""}[self.changed]
        commit = f"commit {self.commit[:_SHOWN]}{changes}" if self.commit else ""
        program = f"{self.program} {self.digest[:_SHOWN]}" if self.digest else ""
        archive = f"shipped {self.archive[:_SHOWN]}" if self.archive else ""
        return ", ".join(filter(None, (commit, program, archive)))


def _git(folder: pathlib.Path, *words: str) -> str | None:
    """Return what git prints about a folder; None if it cannot tell. It writes nothing there."""
    command = ["git", "-C", str(folder), "--no-optional-locks", *words]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_GIT_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _program(folder: pathlib.Path, words: Sequence[str]) -> tuple[str, str]:
    for word in words:
        try:
            path = folder / word
            if word.startswith("-") or not path.is_file() or not path.resolve().is_relative_to(folder.resolve()):
                continue
            if path.stat().st_size > _HASH_BYTES:
                return word, ""
            with path.open("rb") as file:
                return word, hashlib.file_digest(file, "sha256").hexdigest()
        except (OSError, ValueError):  # such as a word that is too long for a path
            continue
    return "", ""


class CodeReading:
    """Looks at the code while the job starts: git may take long in a large repository."""

    def __init__(self, folder: str, words: Sequence[str], archive: str = "") -> None:
        """Begin to look; as for `Code.of`. An empty folder is not looked at. `archive` is known already."""
        self._archive = archive
        self._code = Code()
        self._thread = threading.Thread(target=self._look, args=(pathlib.Path(folder), words), daemon=True)
        if folder:
            self._thread.start()

    def _look(self, folder: pathlib.Path, words: Sequence[str]) -> None:
        self._code = Code.of(folder, words)

    def result(self) -> Code | None:
        """Return what was found; None = nothing, or it takes too long."""
        if self._thread.ident is not None:
            self._thread.join(_GIT_SECONDS)
        code = msgspec.structs.replace(self._code, archive=self._archive)
        return code if code != Code() else None
