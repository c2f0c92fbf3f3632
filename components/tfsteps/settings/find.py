"""Finds the settings that count for jobs of a namespace: of a file, or of the namespace's ConfigMap."""

import os

import msgspec

from tfsteps.kube.client import Api
from tfsteps.settings import config_map
from tfsteps.settings.parse import load, parse
from tfsteps.settings.types import Settings
from tfsteps.spec import Options

VARIABLE = "TFSTEPS_SETTINGS"
"""Environment variable: the path of a file with settings, which counts in place of the ConfigMap's."""

KEY = "settings.yaml"
"""The key of the ConfigMap."""


class Found(msgspec.Struct, frozen=True):
    """The settings for a namespace.

    Attributes:
        settings: The settings; without any fields if there are none.
        source: Where they are, for messages; empty = there are none.
        warning: Why it is not known whether there are settings; empty = it is known.
    """

    settings: Settings = Settings()
    source: str = ""
    warning: str = ""


def of_file(options: Options | None = None) -> Found | None:
    """Return the settings in the file that TFSTEPS_SETTINGS names; None = the variable is not set.

    Raises:
        SpecError: They cannot be read, or are wrong.
    """
    path = os.environ.get(VARIABLE, "").strip()
    return Found(load(path, options), path) if path else None


def of_namespace(api: Api, namespace: str, options: Options | None = None) -> Found:
    """Return the settings in a namespace's ConfigMap.

    Raises:
        SpecError: They are wrong.
        ApiError: There was no valid answer: whether there are settings is not known.
    """
    where = f"ConfigMap {namespace}/{config_map.CONFIG_MAP}"
    try:
        text = config_map.read(api, namespace).get(KEY, "")
    except config_map.UnreadableError as error:
        warning = (
            f"whether the platform has settings for namespace {namespace} is not known, and none are applied: {error}; "
            f"its operator can grant `get` for {where}"
        )
        return Found(warning=warning)
    return Found(parse(text, f"{where}, {KEY}", options), where) if text.strip() else Found()
