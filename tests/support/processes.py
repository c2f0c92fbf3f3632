"""Starting programs that a test has to end."""

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any


@contextlib.contextmanager
def started(command: Sequence[Any], **options: Any) -> Iterator["subprocess.Popen[Any]"]:
    """Start a program with the options of `Popen`, and wait for its end; kill it if the block fails.

    Popen's own block waits in any case: a failed assertion about a program that does not end would never be seen.
    """
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise
