"""Files that are written whole or not at all. Imports nothing of tfsteps."""

import contextlib
import errno
import os
import pathlib
import secrets
import stat

_NOT_REPLACED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY}
"""In a folder that is not writable; of another user in a folder such as /tmp; mounted into a container."""


def write_whole(path: pathlib.Path, data: bytes, mode: int = 0o666) -> None:
    """Write a file; if that fails, an earlier file of that name is kept, and nothing is left of the new one.

    An earlier file keeps its permissions, and a symbolic link to it stays. What cannot be replaced is written to as it
    is: a device, a pipe, standard output, a mounted file, one of several names of a file.

    Args:
        path: The file.
        data: What it is to hold.
        mode: Permissions of a file that is new, less the umask.

    Raises:
        OSError: It was not written.
    """
    try:
        earlier = path.stat()
    except FileNotFoundError:
        earlier = None
    open_file = os.path.abspath(path).startswith(("/dev/", "/proc/"))  # noqa: PTH100  links are not followed
    if open_file or (earlier and (earlier.st_nlink > 1 or not stat.S_ISREG(earlier.st_mode))):
        path.write_bytes(data)
        return
    target = pathlib.Path(os.path.realpath(path))
    new = target.with_name(f".{secrets.token_hex(8)}.new")
    permissions = stat.S_IMODE(earlier.st_mode) if earlier else mode
    try:
        with open(new, "xb", opener=lambda name, flags: os.open(name, flags, permissions)) as file:
            file.write(data)
        if earlier:
            new.chmod(permissions)
        new.replace(target)
    except OSError as error:
        if not (earlier and error.errno in _NOT_REPLACED):
            raise
        target.write_bytes(data)
    finally:
        with contextlib.suppress(OSError):
            new.unlink()
