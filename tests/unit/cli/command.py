"""The command: in this process for tests of what it prints, and its program for those of how it behaves."""

import contextlib
import functools
import os
import pathlib
import pty
import subprocess
import sys

from typer import testing

from tests.support.processes import started
from tfsteps.cli.app import app

# The runner makes all commands again for each call, which takes 20 ms; hundreds of tests need them once.
testing._get_command = functools.cache(testing._get_command)
COMMAND = str(pathlib.Path(sys.executable).with_name("tfsteps"))


def tfsteps(*args, input=None):  # noqa: A002  the runner's word
    """Run `tfsteps` with some arguments; return its exit code, standard output and standard error."""
    result = testing.CliRunner().invoke(app, [str(arg) for arg in args], input=input, prog_name="tfsteps")
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def unread(*args):
    """Run `tfsteps` with nobody to read its output, not even its first line; return its exit code."""
    read, write = os.pipe()
    os.close(read)
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with os.fdopen(write, "wb") as pipe:
        command = [COMMAND, *map(str, args)]
        return subprocess.run(command, env=env, check=False, stdout=pipe, stderr=pipe).returncode


def output_lines(*args):
    """Return the lines that a command prints that succeeds and has nothing to complain about."""
    code, out, err = tfsteps(*args)
    assert (code, err) == (0, "")
    return out.splitlines()


def refused(*args):
    """Return the error of a command that refuses and prints nothing else."""
    code, out, err = tfsteps(*args)
    assert (code, out) == (2, "")
    return err


def on_terminal(*args):
    """Return the bytes that `tfsteps` prints to a terminal as its standard output."""
    controller, terminal = pty.openpty()
    with os.fdopen(controller, "rb", buffering=0) as screen:
        with started([COMMAND, *map(str, args)], stdout=terminal) as process:
            os.close(terminal)
            printed = b""
            with contextlib.suppress(OSError):  # the end of a terminal is an error
                while data := screen.read(4096):
                    printed += data
        assert process.returncode == 0
    return printed
