"""Files that are written whole or not at all. Imports nothing of tfsteps."""

import errno
import os
import pathlib
import secrets


def write_whole(path: pathlib.Path, data: bytes, mode: int = 0o666) -> None:
    """Write a file; if that fails, an earlier file of that name is kept, and nothing is left of the new one.

    An earlier file keeps its permissions, and a symbolic link to it stays. What cannot be replaced is written to as it
    is: a device, a pipe, a mounted file, a file in a folder that is not writable.

    Args:
        path: The file.
        data: What it is to hold.
        mode: Permissions of a file that is new, less the umask.

    Raises:
        OSError: It was not written.
    """
    target = pathlib.Path(os.path.realpath(path))
    there = target.exists()
    if there and not target.is_file():
        target.write_bytes(data)
        return
    new = target.with_name(f".{secrets.token_hex(8)}.new")
    try:
        try:
            file = open(new, "xb", opener=lambda name, flags: os.open(name, flags, mode))  # noqa: SIM115
        except PermissionError:
            if not there:
                raise
            target.write_bytes(data)
            return
        with file:
            file.write(data)
        if there:
            new.chmod(target.stat().st_mode & 0o7777)
        try:
            new.replace(target)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            target.write_bytes(data)
    finally:
        new.unlink(missing_ok=True)
