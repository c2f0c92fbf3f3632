"""Whether the user may run tasks in a group of nodes.

HAI accepts any group. A task with priority AUTO in a group of which the user has no quota stops HAI's scheduler, for
every user, until the task is stopped. With another priority such a task waits for ever.
"""

from collections.abc import Mapping
from typing import Any

from tfsteps.kube.errors import ApiError
from tfsteps.platforms.hai.client import Client
from tfsteps.platforms.hai.schema import AUTO
from tfsteps.systems.base import LaunchError

_DEFAULT = "default"  # in any case; HAI replaces it by its own default group
_NO_ENDPOINT = 404


class Groups:
    """The groups of nodes of one user, which are asked for when they matter."""

    def __init__(self, client: Client) -> None:
        """Send no request yet."""
        self._client = client
        self._known: frozenset[str] | None = None

    def check(self, schema: Mapping[str, Any]) -> None:
        """Check the group of a task that is about to be created.

        If HAI does not tell the groups, a task that names one must have a priority: then it harms no other user.

        Raises:
            LaunchError: The task must not be created.
            ApiError: HAI does not answer now.
        """
        group, auto = _group(schema), schema["priority"] == AUTO
        default = group.lower() == _DEFAULT
        if default and not auto:
            return
        try:
            self._known = self._client.groups()
        except ApiError as error:
            if default or not auto:
                return
            if error.unavailable and error.status != _NO_ENDPOINT:
                raise
            why = f"whether HAI has the group {group!r} is not known ({error})"
            fix = "set `priority`: without one, a task of an unknown group stops HAI's scheduler for every user"
            raise LaunchError(f"{why}; {fix}", retryable=False) from error
        if auto and not self._known:
            wrong = (
                "the user has no quota of any group of nodes, and such a task without a priority stops HAI's scheduler"
            )
            raise LaunchError(f"{wrong}; ask HAI's administrator for a quota", retryable=False)
        if self._known and not default and group not in self._known:
            raise LaunchError(self._unknown(group), retryable=False)

    def default_problem(self, schema: Mapping[str, Any], granted: str) -> str:
        """Return why a new task must be stopped whose job left the group to HAI, which has `granted` this one."""
        auto, group = schema["priority"] == AUTO and _group(schema).lower() == _DEFAULT, granted.partition("#")[0]
        stops_scheduler = auto and self._known and group.lower() not in ("", _DEFAULT) and group not in self._known
        return self._unknown(group) if stops_scheduler else ""

    def _unknown(self, group: str) -> str:
        listed = ", ".join(sorted(self._known or ()))
        return f"queue: {group!r} is no group of nodes of which the user has a quota. Allowed: {listed}. Correct it"


def _group(schema: Mapping[str, Any]) -> str:
    """Return the group that a task asks for, without its zone."""
    return str(schema["resource"]["group"]).partition("#")[0]
