"""Finds, in a compiled pipeline, components that open artifacts of tfsteps which have no files on a cluster."""

import ast
from collections.abc import Iterator

from tfsteps.engines.kfp.graph import Call

_FOLDERS = {("train", "model"), ("wait", "model")}
"""Outputs that name a folder of the job's volume in their metadata, and are not in the back end's store."""


def lint_messages(call: Call) -> Iterator[str]:
    """Yield a sentence for each such artifact whose `path` the task opens."""
    for name, written in call.artifacts.items():
        if written in _FOLDERS and _opens(call, name):
            yield (
                f"input {name!r}: nothing is at {name}.path on a cluster, because a model stays in the volume of its "
                f'job; open {name}.metadata["path"], which works here and there, and mount the volume in this task '
                "(kubernetes.mount_pvc)"
            )


def _opens(call: Call, name: str) -> bool:
    placeholder = f"$.inputs.artifacts['{name}'].path"
    words = [str(word) for word in (*call.container.get("command", []), *call.container.get("args", []))]
    return any(placeholder in word for word in words) or any(
        isinstance(node, ast.Attribute)
        and node.attr == "path"
        and isinstance(node.value, ast.Name)
        and node.value.id == name
        for function in _functions(words)
        for node in ast.walk(function)
    )


def _functions(words: list[str]) -> Iterator[ast.AST]:
    """Yield the function of a component whose source is among the words of its container."""
    if "--function_to_execute" not in words[:-1]:
        return
    function = words[words.index("--function_to_execute") + 1]
    for word in words:
        if f"def {function}(" in word:
            try:
                tree = ast.parse(word)
            except SyntaxError:  # a shell script, or of a newer Python
                continue
            yield from (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function)
