"""Reads the ConfigMap `tfsteps` of a namespace, which holds the settings of its operator."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import Resource

if TYPE_CHECKING:
    from tfsteps.kube.client import Api

CONFIG_MAP = "tfsteps"
"""Its name. It holds environment variables, such as the address of records, and platform settings."""

_CONFIG_MAPS = Resource("v1", "configmaps", "ConfigMap")


class SettingsUnreadableError(Exception):
    """Nobody may read the ConfigMap, or its namespace: whether it exists is not known."""


def read(api: "Api", namespace: str) -> Mapping[str, str]:
    """Return the data of the ConfigMap; empty = there is none.

    Raises:
        UnreadableError: The request was refused.
        ApiError: There was no valid answer.
    """
    try:
        return dict(api.get(_CONFIG_MAPS, namespace, CONFIG_MAP).get("data") or {})
    except ApiError as error:
        if error.status == 404:
            return {}
        if error.status == 403 and not error.unavailable:
            raise SettingsUnreadableError(str(error)) from error
        raise
