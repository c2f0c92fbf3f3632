"""The shell that is started beside a wrapped program."""

import subprocess

from tfsteps.systems.kubernetes.render.command_wrapper import BESIDE


def test_a_shell_beside_a_program_or_a_command_there():
    command = subprocess.run([*BESIDE, "sh", "printf", "<%s>", "a b", "c"], capture_output=True, text=True, check=True)
    assert command.stdout == "<a b><c>"
    shell = subprocess.run(BESIDE, input="echo ${TFSTEPS_ROLE-unset}\n", capture_output=True, text=True, check=True)
    assert shell.stdout == "\n", "the variables of process 1, which has no such variable here"
