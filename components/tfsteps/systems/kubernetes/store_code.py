"""Stores the packed code of a job on a claim, whole or not at all, and removes what no launch has used for long.

It runs in a pod with the Python of the job's image, 3.7 or newer, and needs the standard library alone.
Arguments: the folder on the claim, the SHA-256 of the uncompressed archive, the number of days after which an unused
archive is removed, and the files that are the compressed archive, in their order; none = it must be there already.
"""

import gzip
import hashlib
import os
import pathlib
import re
import sys
import tempfile
import time
import zlib

BLOCK = 1 << 20


def digest_of(path: pathlib.Path) -> str:
    """Return the SHA-256 of the uncompressed content of a file; empty = it cannot be read, or is damaged."""
    content = hashlib.sha256()
    try:
        with gzip.open(path) as archive:
            for block in iter(lambda: archive.read(BLOCK), b""):
                content.update(block)
    except (OSError, EOFError, zlib.error):
        return ""
    return content.hexdigest()


def store(folder: pathlib.Path, digest: str, parts: "list[str]") -> None:
    """Make the archive in the folder that of its digest. OSError if that is not possible."""
    path = folder / (digest + ".tar.gz")
    if digest_of(path) == digest:
        os.utime(path)  # `remove_unused` keeps it
        return
    if not parts:
        raise OSError("it is not there, and the machine that launches does not have it: launch it from its folder")
    folder.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(".part", digest + ".", folder)
    temporary = pathlib.Path(name)
    try:
        with os.fdopen(number, "wb") as file:
            file.writelines(pathlib.Path(part).read_bytes() for part in parts)
            file.flush()
            os.fsync(file.fileno())
        if digest_of(temporary) != digest:
            raise OSError("what was stored has another hash")  # noqa: TRY301
        temporary.chmod(0o644)  # replicas may have another user
        temporary.replace(path)
    except OSError:
        temporary.unlink()
        raise


def remove_unused(folder: pathlib.Path, oldest: float) -> None:
    """Remove archives, and what was not stored to its end, that no launch has used since a time."""
    for path in folder.iterdir():
        if re.fullmatch(r"[0-9a-f]{64}\.(tar\.gz|\w+\.part)", path.name) and path.stat().st_mtime < oldest:
            path.unlink()


def main(folder: str, digest: str, days: str, *parts: str) -> None:
    """Store and remove; exits with a message if the archive is not there then."""
    try:
        store(pathlib.Path(folder), digest, list(parts))
    except OSError as error:
        sys.exit(str(error))
    try:
        remove_unused(pathlib.Path(folder), time.time() - float(days) * 86400)
    except OSError as error:  # such as another launch that removes the same; the code is there
        sys.stderr.write("tfsteps: old code was not removed: " + str(error) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
