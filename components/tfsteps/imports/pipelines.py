"""Finds pipelines of platforms in a text, each as a Workflow. Pure."""

import importlib
from collections.abc import Callable
from typing import Any

import msgspec

from tfsteps import yaml_reader

READERS = ("tfsteps.platforms.cube_studio.pipeline:read_pipelines",)
"""The readers of platforms, each a `Reader` as `module:function`, which is imported when it is needed."""


class ImportedPipeline(msgspec.Struct, frozen=True):
    """A pipeline in the notation of an engine.

    Attributes:
        name: Its name.
        source: What it was, for messages: `pipeline mnist of cube-studio`.
        text: The compiled pipeline: a Workflow as YAML.
        notes: Sentences about what it does not have, each with the reason.
    """

    name: str
    source: str
    text: str
    notes: list[str]


Reader = Callable[[Any], list[ImportedPipeline]]
"""Returns the pipelines of a document; empty = it is of another kind. NotUnderstoodError for a wrong one."""


def read_pipelines(text: str) -> list[ImportedPipeline]:
    """Return the pipelines in a YAML or JSON text; empty = there are none. NotUnderstoodError as a `Reader`."""
    try:
        documents = yaml_reader.documents(text)
    except yaml_reader.YamlError:
        return []  # who reads jobs reports it
    found = []
    for name in READERS:
        module, _, function = name.partition(":")
        read: Reader = getattr(importlib.import_module(module), function)
        found += [pipeline for document in documents for pipeline in read(document)]
    return found
