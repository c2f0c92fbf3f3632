"""Finds the settings that count for jobs of a namespace: of a file, or of the namespace's ConfigMap."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import Resource
from tfsteps.spec import Options

if TYPE_CHECKING:
    from tfsteps.kube.client import Api
    from tfsteps.settings.types import Settings

CONFIG_MAP = "tfsteps"
"""Its name. It holds environment variables, such as the address of records, and platform settings."""

_CONFIG_MAPS = Resource("v1", "configmaps", "ConfigMap")


VARIABLE = "TFSTEPS_SETTINGS"
"""Environment variable: the path of a file with settings, which counts in place of the ConfigMap's."""

KEY = "settings.yaml"
"""The key of the ConfigMap."""


class Found(msgspec.Struct, frozen=True):
    """The settings for a namespace.

    Attributes:
        settings: The settings; None = there are none, or that is not known.
        source: Where they are, for messages; empty = there are none.
        warning: Why it is not known whether there are settings; empty = it is known.
    """

    settings: "Settings | None" = None
    source: str = ""
    warning: str = ""


def of_file(options: Options | None = None) -> Found | None:
    """Return the settings in the file that TFSTEPS_SETTINGS names; None = the variable is not set.

    Raises:
        SpecError: They cannot be read, or are wrong.
    """
    path = os.environ.get(VARIABLE, "").strip()
    if not path:
        return None
    from tfsteps.settings.parse import load  # noqa: PLC0415  as below

    return Found(load(path, options), path)


def of_namespace(api: "Api", namespace: str, options: Options | None = None) -> Found:
    """Return the settings in a namespace's ConfigMap.

    Raises:
        SpecError: They are wrong.
        ApiError: There was no valid answer: whether there are settings is not known.
    """
    where = f"ConfigMap {namespace}/{CONFIG_MAP}"
    try:
        text = read(api, namespace).get(KEY, "")
    except SettingsUnreadableError as error:
        warning = (
            f"whether the platform has settings for namespace {namespace} is not known, and none are applied: {error}; "
            f"its operator can grant `get` for {where}"
        )
        return Found(warning=warning)
    if not text.strip():
        return Found()
    from tfsteps.settings.parse import parse  # noqa: PLC0415  1.4 MiB, and few namespaces have settings

    return Found(parse(text, f"{where}, {KEY}", options), where)


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
        if error.missing:
            return {}
        if error.status == 403 and not error.unavailable:
            raise SettingsUnreadableError(str(error)) from error
        raise
