"""The files of a program as an archive: packed where a job is launched, kept by their hash, unpacked for the replicas.

The hash is that of the uncompressed archive, in which nothing depends on the machine: names are sorted, and times,
owners and permissions are normalized. Archives are kept in `<home>/code`, or in a bucket.
"""

import base64
import binascii
import contextlib
import gzip
import hashlib
import io
import itertools
import os
import pathlib
import re
import stat
import tarfile
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tfsteps.runs import store
from tfsteps.spec import CodeSource
from tfsteps.whole_file import write_whole

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORE_FILE = ".tfstepsignore"
"""A file in the form of `.gitignore`, which it precedes: `!NAME` includes what is left out otherwise."""

INLINE_BYTES = 48 << 10
"""The largest compressed archive in an input of a pipeline's step, all of which are one argument of a process."""

MOST_ARCHIVE_BYTES = 320 << 20
"""No archive is larger, compressed or not: what a bucket has may be endless, or expand to any size."""

_MOST_BYTES, _MOST_FILES = 256 << 20, 10_000  # of the files before they are compressed
_COUNTED = 2 * _MOST_FILES  # a home folder has a million files: who ships it need not wait until all are listed
_MOST_LEVELS = 200
_UNUSED_SECONDS = 90 * 86400.0
_SHOWN = 5
_SECONDS = 60  # without an answer of a bucket
_WHOLE_SECONDS = 900.0  # for an archive: a server may send a byte now and then
_FIX = f"list what the program does not read in {IGNORE_FILE}, and mount data from a volume"
_NEVER = {".git", ".hg", ".svn"}
_LEFT_OUT = {
    "may hold a secret": (
        ".env", ".env.*", ".netrc", ".pypirc", ".ssh/", ".aws/", ".kube/", ".docker/", ".config/gcloud/",
        "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "*.pem", "*.key", "*.p12", "*.kubeconfig",
        ".azure/", ".boto", ".envrc", ".git-credentials", ".gnupg/", ".npmrc", ".s3cfg", ".vault-token",
        "kaggle.json", "kubeconfig", "*.jks", "*.pfx",
    ),
    "is generated": (
        "__pycache__/", "*.pyc", ".venv/", "venv/", "node_modules/", ".ipynb_checkpoints/", ".mypy_cache/",
        ".pytest_cache/", ".ruff_cache/", ".tox/", "*.egg-info/", ".DS_Store",
    ),
}  # fmt: skip


class CodeError(ValueError):
    """Files cannot be packed, or an archive is not kept here; the message says what to do."""


class Packed(msgspec.Struct, frozen=True):
    """A packed folder.

    Attributes:
        digest: SHA-256 of the uncompressed archive, in hexadecimal digits.
        files: Number of files and links.
        size: Bytes of the compressed archive.
        left_out: What was left out of the folder, each `name (reason)`; a folder stands for all that is in it.
    """

    digest: str
    files: int
    size: int
    left_out: Sequence[str] = ()

    def __str__(self) -> str:
        """Return `3 files, 12Ki packed, sha256 0a1b2c3d4e5f`."""
        files = "1 file" if self.files == 1 else f"{self.files} files"
        return f"{files}, {_kib(self.size)} packed, sha256 {self.digest[:12]}"


def resolve(source: CodeSource, base_dir: pathlib.Path) -> tuple[CodeSource, Packed | None]:
    """Return a source with the digest of its files, and how they were packed; None = they had been packed before.

    Args:
        source: The source. If it has a digest, the archive of that digest is used, and no folder is read.
        base_dir: The folder that a relative folder starts from.

    Raises:
        CodeError: The folder cannot be packed, or no archive of that digest is kept here.
        OSError: The archive cannot be written.
    """
    if source.digest:
        if not source.bucket:  # else it was uploaded where it was packed
            read(source.digest)
        return source, None
    packed = pack(base_dir / source.folder)
    return msgspec.structs.replace(source, digest=packed.digest), packed


def pack(folder: pathlib.Path) -> Packed:
    """Pack a folder, and keep the archive.

    Left out are `.git`, the records of runs, what `.gitignore` and `.tfstepsignore` name, files that may hold secrets,
    caches, and links that lead out of the folder.

    Raises:
        CodeError: There is no such folder, it has no or too many files, or one of them cannot be read.
        OSError: The archive cannot be written.
    """
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise CodeError(f"code folder {str(folder)!r} {what}: name the folder of the program")
    root, records, left_out = folder.resolve(), store.home().resolve(), list[str]()
    try:
        files = sorted(itertools.islice(_files(root, _Ignores.of(root), left_out, records), _COUNTED))
        if not files:
            why = f"left out: {', '.join(left_out)}" if left_out else "it is empty"
            raise CodeError(f"code folder {folder} has no files to ship: {why}; name the folder of the program")
        _check_size(folder, root, files)
        plain = _tar(root, files)
    except FileNotFoundError as error:
        wrong = f"{error.filename} was deleted while its folder was read"
        fix = f"retry when no program writes there, or list it in {IGNORE_FILE}"
        raise CodeError(f"code folder {folder} cannot be packed: {wrong}; {fix}") from error
    except OSError as error:
        fix = f"make it readable, or list it in {IGNORE_FILE}"
        raise CodeError(f"code folder {folder} cannot be packed: {error}; {fix}") from error
    digest = hashlib.sha256(plain).hexdigest()
    size = _keep(digest, gzip.compress(plain, mtime=0))
    return Packed(digest, len(files), size, tuple(left_out))


def docker_patterns() -> list[str]:
    """Return what is left out of each folder, in the form of `.dockerignore`, whose patterns begin at the top."""
    patterns = itertools.chain(sorted(_NEVER), *_LEFT_OUT.values())
    return [f"**/{pattern.rstrip('/')}" for pattern in patterns]


def kept(digest: str) -> bool:
    """Return whether this machine keeps the archive of a digest."""
    return _path(digest).exists()


def read(digest: str) -> bytes:
    """Return the compressed archive of a digest. CodeError if it is not kept on this machine, or damaged."""
    try:
        archive = _path(digest).read_bytes()
    except FileNotFoundError as error:
        fix = "launch it from its folder: `--set code=FOLDER`"
        raise CodeError(f"the code {digest[:12]} is not kept on this machine; {fix}") from error
    except OSError as error:
        raise CodeError(f"the code {digest[:12]} cannot be read: {error}") from error
    _plain(archive, digest)
    with contextlib.suppress(OSError):
        os.utime(_path(digest))  # `_remove_unused` keeps it
    return archive


def unpack(digest: str, folder: pathlib.Path) -> None:
    """Unpack the archive of a digest into a folder, which is created if missing.

    Raises:
        CodeError: The archive is not kept on this machine, or damaged.
        OSError: The files cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(_plain(read(digest), digest))) as tar:
        tar.extractall(folder, filter="data")


def largest(digest: str) -> str:
    """Return the largest files of an archive with their sizes, for a message."""
    with tarfile.open(fileobj=io.BytesIO(_plain(read(digest), digest))) as tar:
        return _largest((member.size, member.name) for member in tar.getmembers())


def to_text(digest: str) -> str:
    """Return an archive as text, for an input of a pipeline's step. CodeError if it is not kept, or is too large."""
    archive = read(digest)
    if len(archive) > INLINE_BYTES:
        wrong = f"the code is {_kib(len(archive))} packed, and a step of a pipeline takes at most {_kib(INLINE_BYTES)}"
        raise CodeError(f"{wrong}; the largest files: {largest(digest)}; {reduce_hint()}")
    return f"{digest}:{base64.b64encode(archive).decode()}"


def from_text(text: str) -> str:
    """Keep the archive in a text of `to_text`, and return its digest.

    Raises:
        CodeError: The text is not one.
        OSError: The archive cannot be written.
    """
    digest, _, encoded = text.partition(":")
    try:
        archive = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        archive = b""
    if not archive:
        raise CodeError("it is not packed code")
    store_packed(digest, archive)
    return digest


def store_packed(digest: str, archive: bytes) -> None:
    """Store an archive that another machine packed.

    Raises:
        CodeError: It is not that of the digest.
        OSError: It cannot be written.
    """
    _plain(archive, digest)
    _keep(digest, archive)


def reduce_hint() -> str:
    """Return what to do about an archive that is too large, for a message."""
    return f"{_FIX}, name a bucket for it (`code.bucket`, `--code-bucket URL`), or build an image"


def _kib(size: int) -> str:
    return f"{-(-size // 1024)} KiB"


# --- which files


_Patterns = Sequence[tuple[pathlib.Path, str, "GitIgnoreSpec"]]  # folder, reason for what matches, patterns


class _Ignores(msgspec.Struct, frozen=True):
    """Which entries of a folder are left out: of each list, and then of all, the first pattern that matches decides."""

    tfsteps: _Patterns  # of `.tfstepsignore`, the deepest folder first
    secrets: _Patterns  # that are left out unless a `.tfstepsignore` includes them
    git: _Patterns  # of `.gitignore`, the deepest folder first

    @classmethod
    def of(cls, root: pathlib.Path) -> "_Ignores":
        """Return what applies to a folder, without its own files: `.gitignore` of the repository above."""
        from pathspec import GitIgnoreSpec  # noqa: PLC0415  launchers pack nothing, and do not have it

        ours = [(root, reason, GitIgnoreSpec.from_lines(patterns)) for reason, patterns in _LEFT_OUT.items()]
        inside = list(itertools.takewhile(lambda folder: not (folder / ".git").exists(), [root, *root.parents]))
        above = root.parents[: len(inside)] if len(inside) <= len(root.parents) else []
        return cls([], ours, [entry for folder in above for entry in _ignore_file(folder, ".gitignore")])

    def below(self, folder: pathlib.Path) -> "_Ignores":
        """Return what applies to the entries of a folder below."""
        tfsteps, git = _ignore_file(folder, IGNORE_FILE), _ignore_file(folder, ".gitignore")
        return _Ignores([*tfsteps, *self.tfsteps], self.secrets, [*git, *self.git])

    def reason(self, path: str, *, is_folder: bool) -> str:
        """Return why an entry is left out; empty = it is not."""
        for folder, reason, spec in (*self.tfsteps, *self.secrets, *self.git):
            include = spec.check_file(os.path.relpath(path, folder) + ("/" if is_folder else "")).include
            if include is not None:
                return reason if include else ""
        return ""


def _ignore_file(folder: pathlib.Path, name: str) -> _Patterns:
    from pathspec import GitIgnoreSpec  # noqa: PLC0415  as above

    try:
        lines = (folder / name).read_text(encoding="utf-8-sig", errors="surrogateescape").splitlines()
    except (FileNotFoundError, IsADirectoryError):
        return []
    try:
        return [(folder, name, GitIgnoreSpec.from_lines(lines))]
    except (ValueError, re.error):  # pathspec names no line
        for number, line in enumerate(lines, 1):
            try:
                GitIgnoreSpec.from_lines([line])
            except (ValueError, re.error) as error:
                wrong = f"{folder / name}:{number}: {line!r} is no pattern"
                raise CodeError(f"{wrong}; correct or remove it, for what it leaves out is not known") from error
        raise


def _files(
    root: pathlib.Path, above: _Ignores, left_out: list[str], records: pathlib.Path, folder: str = ""
) -> Iterator[str]:
    """Yield the names of files and links below a folder, relative to `root`; note what is left out.

    The records of runs, with logs and earlier archives, are no code: they would give each run another hash.
    """
    if folder.count("/") > _MOST_LEVELS:
        wrong = f"code folder {root} has folders nested more than {_MOST_LEVELS} levels deep: {folder[:60]}…"
        raise CodeError(f"{wrong}; list what the program does not read in {IGNORE_FILE}")
    ignores = above.below(root / folder)
    with os.scandir(root / folder) as scan:
        entries = sorted(scan, key=lambda entry: entry.name)
    for entry in entries:
        name = f"{folder}{entry.name}"
        is_folder = entry.is_dir(follow_symlinks=False)
        if is_folder and root / name == records:
            ignored = "records of runs"
        else:
            ignored = "version control" if entry.name in _NEVER else ignores.reason(entry.path, is_folder=is_folder)
        if reason := ignored or _unusable(root, entry):
            left_out.append(f"{name}{'/' if is_folder else ''} ({reason})")
        elif is_folder:
            yield from _files(root, ignores, left_out, records, f"{name}/")
        else:
            yield name


def _unusable(root: pathlib.Path, entry: os.DirEntry[str]) -> str:
    """Return why an entry cannot be shipped; empty = it can."""
    if entry.is_symlink():
        target = pathlib.Path(os.path.realpath(entry.path))  # `resolve` raises RuntimeError for a loop of links
        if not target.is_relative_to(root):
            return "link that leads out of the folder"
        return "" if target.exists() else "broken link"
    return "" if entry.is_dir() or entry.is_file() else "not a regular file"


def _check_size(folder: pathlib.Path, root: pathlib.Path, files: Sequence[str]) -> None:
    """Raise CodeError if the files are too many or too large to be worth compressing."""
    sizes = [((root / name).lstat().st_size, name) for name in files]
    total = sum(size for size, _ in sizes)
    if total > _MOST_BYTES or len(files) > _MOST_FILES:
        count = f"{'at least ' * (len(files) == _COUNTED)}{len(files)}"
        wrong = f"has {count} files of {_kib(total)}; at most {_MOST_FILES} of {_kib(_MOST_BYTES)} are possible"
        raise CodeError(f"code folder {folder} {wrong}; the largest: {_largest(sizes)}; {_FIX}")


def _largest(sizes: Iterable[tuple[int, str]]) -> str:
    top = sorted(sizes, key=lambda item: (-item[0], item[1]))[:_SHOWN]
    return ", ".join(f"{name} ({_kib(size)})" for size, name in top)


# --- archives


def _tar(root: pathlib.Path, files: Sequence[str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name in files:
            path, member = root / name, tarfile.TarInfo(name)
            if path.is_symlink():
                member.type, member.mode = tarfile.SYMTYPE, 0o777
                member.linkname = os.path.relpath(path.resolve(), path.parent.resolve())
                tar.addfile(member)
                continue
            content = path.read_bytes()
            member.size = len(content)
            member.mode = 0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _plain(archive: bytes, digest: str) -> bytes:
    """Return the uncompressed archive. CodeError if it is not that of the digest, as after a crash."""
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)  # 16: as gzip
    try:
        plain = unpacker.decompress(archive, MOST_ARCHIVE_BYTES)
    except zlib.error:
        plain = b""
    if not unpacker.eof or unpacker.unused_data or hashlib.sha256(plain).hexdigest() != digest:
        raise CodeError(f"the code {digest[:12]} is damaged: its content has another hash; pack it again")
    return plain


def _path(digest: str) -> pathlib.Path:
    return store.home() / "code" / f"{digest}.tar.gz"


def _keep(digest: str, archive: bytes) -> int:
    """Keep an archive, whole or not at all, and return its size in bytes."""
    path = _path(digest)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(path, archive, 0o600)
    _remove_unused(path.parent)
    return len(archive)


def _remove_unused(folder: pathlib.Path) -> None:
    """Remove the archives that no launch has read for 90 days."""
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < time.time() - _UNUSED_SECONDS:
                path.unlink()


def url_of(source: CodeSource) -> str:
    """Return the URL of the packed code of a source that has a bucket; empty = it was not packed."""
    return f"{(source.bucket or '').rstrip('/')}/{source.digest}.tar.gz" if source.digest else ""


def upload(source: CodeSource) -> bool:
    """Upload the packed code of a source that has a bucket, and return True; False = this machine does not keep it.

    Then another machine has packed and uploaded it. Replicas check its hash.

    Raises:
        CodeError: It cannot be uploaded.
    """
    import http.client  # noqa: PLC0415  launchers, which start often, only need `url_of`
    import urllib.error  # noqa: PLC0415
    import urllib.request  # noqa: PLC0415

    from tfsteps.tensorboard.object_store import put_object  # noqa: PLC0415

    if not source.digest or not kept(source.digest):
        return False
    url, archive = url_of(source), read(source.digest)
    try:
        if url.startswith("http"):
            request = urllib.request.Request(url, archive, {"Content-Type": "application/gzip"}, method="PUT")  # noqa: S310
            with urllib.request.urlopen(request, timeout=_SECONDS):  # noqa: S310  the pattern of `bucket` has the schemes
                return True
        put_object(url, archive)
    except (OSError, http.client.HTTPException) as error:
        fix = "correct code.bucket or the credentials, then launch it again"
        if isinstance(error, urllib.error.HTTPError):
            error.close()
            fix = "the server must allow PUT there without credentials"
        raise CodeError(f"the code cannot be uploaded to {url}: {error}; {fix}") from error
    return True


def fetch(source: CodeSource) -> None:
    """Keep the packed code of a source on this machine: from its bucket, unless this machine keeps it already.

    Raises:
        CodeError: It cannot be fetched, or has another hash.
        OSError: It cannot be written.
    """
    import http.client  # noqa: PLC0415  as above
    import urllib.error  # noqa: PLC0415
    import urllib.request  # noqa: PLC0415

    from tfsteps.tensorboard.object_store import open_object, set_endpoints  # noqa: PLC0415

    if not source.digest or not source.bucket or kept(source.digest):
        return
    if (url := url_of(source)).startswith("pvc://"):
        fix = "run it on the cluster, or launch it from its folder: `--set code=FOLDER`"
        raise CodeError(f"the code is on a claim, {url}, which this machine cannot read; {fix}")
    try:
        if url.startswith("http"):
            with urllib.request.urlopen(url, timeout=_SECONDS) as answer:  # noqa: S310  as above
                archive = _content(answer, time.monotonic() + _WHOLE_SECONDS)
        else:
            set_endpoints()
            archive = open_object(url)[0].read(MOST_ARCHIVE_BYTES)
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        fix = "correct code.bucket or the credentials, or launch it from its folder: `--set code=FOLDER`"
        raise CodeError(f"the code cannot be fetched from {url}: {error}; {fix}") from error
    try:
        store_packed(source.digest, archive)
    except CodeError as error:
        raise CodeError(f"{error}; it was fetched from {url}") from error


def _content(answer: Any, deadline: float) -> bytes:
    """Return the body of an answer, no more than an archive has. OSError if it takes until the deadline."""
    content = bytearray()
    while len(content) < MOST_ARCHIVE_BYTES and (block := answer.read1(1 << 16)):
        content += block
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {_WHOLE_SECONDS:g} s only {len(content)} bytes have arrived")
    return bytes(content)  # half of it has another hash
