"""What helps against an error of the operating system. Imports nothing of tfsteps."""

import errno

_STEPS = {
    errno.ENOSPC: "free some space there",
    errno.EDQUOT: "free some space there",
    errno.ENOTDIR: "a part of this path is a file; remove it, or name a folder, such as by TFSTEPS_HOME for records",
    errno.EROFS: "make its file system writable",
    errno.EACCES: "give this user the permission",
    errno.EPERM: "give this user the permission",
}


def next_step(error: OSError) -> str:
    """Return what to do about an error, as the end of the sentence that has it; no cause is guessed."""
    return _STEPS.get(error.errno or 0, "fix the cause and retry")
