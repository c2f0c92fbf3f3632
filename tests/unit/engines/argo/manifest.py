"""Manifests that differ from a good one in one place."""

import copy

import yaml


def changed(path, value, text):
    """Return a manifest with another value somewhere in its spec; None removes it."""
    manifest = copy.deepcopy(yaml.safe_load(text))
    node = manifest["spec"]
    for key in path[:-1]:
        node = node[key]
    if value is None:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return yaml.safe_dump(manifest)


def arguments(**values):
    """Return arguments of a task, a step or a hook."""
    return {"parameters": [{"name": name, "value": value} for name, value in values.items()]}
