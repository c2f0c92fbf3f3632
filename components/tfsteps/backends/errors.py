"""The error of commands and of backends."""

from tfsteps.console.errors import CommandError

__all__ = ["CommandError"]
