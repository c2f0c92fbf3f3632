"""Reads a YAML or JSON text as plain data with line numbers.

It uses YAML 1.2's core schema: `on`, `no` and `1:30` are text. A duplicate key is a problem.
"""

import re
from collections.abc import Iterator
from typing import Any, NoReturn

import msgspec
import yaml

from tfsteps import yaml_reader
from tfsteps.spec.decode import Document
from tfsteps.spec.problems import JOB_FILE, FileKind, Path, Problem, SpecError, shown
from tfsteps.yaml_reader import MERGE, SEVERAL, TAG, YamlError, line_of

MAX_BYTES = 1 << 20  # no file that somebody writes is larger

_CORE = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?",
    "merge": r"<<",
}
_MANIFEST = re.compile(r"^apiVersion:", re.MULTILINE)


class _CoreSchemaLoader(yaml_reader.Loader):
    """Composes nodes, tagging plain scalars by YAML 1.2's core schema instead of 1.1's."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012


for _name, _pattern in _CORE.items():
    _CoreSchemaLoader.add_implicit_resolver(TAG + _name, re.compile(rf"^(?:{_pattern})$"), None)


def parse(text: str, source: str = "job", kind: FileKind = JOB_FILE) -> Document:
    """Return the one YAML or JSON document in `text`; `source` is its name in messages, `kind` what it should be.

    Raises:
        SpecError: It is too large, too deep, not YAML, more than one document, not a mapping, or a Kubernetes object.
    """
    root = _composed(text, source, kind)
    if not isinstance(root, yaml.MappingNode):
        _refuse(source, kind, f"is empty, or not a {kind.name} file", kind.start)
    document = Document(None, source=source)
    document.value = _read(root, (), document)
    if {"apiVersion", "kind"} <= document.value.keys():
        raise SpecError([kind.manifest_problem(source)], source)
    return document


def parse_value(text: str, source: str, path: Path) -> Document:
    """Return the YAML value in `text` as the value at `path` of a job; an empty `text` is empty text, not null.

    Raises:
        SpecError: It is too large, too deep, not YAML, or a part of its one line would be lost as a comment.
    """
    try:
        root = _composed(text if text.strip() else "''", source, JOB_FILE)
        if _is_cut(root, text.strip()):
            _refuse(source, JOB_FILE, "is cut by YAML, at a comment (#) or a mark of a document (---)", "")
    except SpecError as error:
        (problem,) = error.problems
        fix = f"Quote the value for YAML too: {source}='\"...\"'"
        raise SpecError([msgspec.structs.replace(problem, path=path, fix=fix, line=None)], source) from error
    document = Document(None, source=source)
    document.value = _read(root, path, document) if root else None
    return document


def _is_cut(root: yaml.Node | None, text: str) -> bool:
    """Return whether a line of plain text is more than the value that YAML reads of it."""
    if "\n" in text or text.startswith(("!", "&")):
        return False
    return root is None or (isinstance(root, yaml.ScalarNode) and not root.style and root.value != text)


def _composed(text: str, source: str, kind: FileKind) -> yaml.Node | None:
    """Return the node of the one document in `text`; None for an empty text."""
    if len(text) > MAX_BYTES:
        _refuse(source, kind, "is longer than 1 MiB", f"Check that this is the {kind.name} file")
    try:
        return yaml_reader.compose(text, _CoreSchemaLoader)
    except YamlError as error:
        if error.wrong == SEVERAL and _MANIFEST.search(text):
            raise SpecError([kind.manifest_problem(source)], source) from error
        _refuse(source, kind, error.wrong, error.fix, error.line)


def _refuse(source: str, kind: FileKind, wrong: str, fix: str, line: int = 1) -> NoReturn:
    raise SpecError([Problem(path=kind.path, wrong=wrong, fix=fix, line=line)], source)


def _read(node: yaml.Node, path: Path, document: Document) -> Any:
    """Return the value of a node at `path`; `document` gets the lines and texts of all its parts, and their problems.

    A scalar is its text if it does not match its tag, or is a number that is too long.
    """
    document.lines.setdefault(path, line_of(node))
    tag = node.tag.removeprefix(TAG)
    if tag not in ("str", "seq", "map", *_CORE):
        shown_tag, wrong = "!" + tag.removeprefix("!"), "is not a known tag"
        problem = Problem(path=path, value=shown_tag, wrong=wrong, fix="Remove it", line=line_of(node))
        document.problems.append(problem)
    if isinstance(node, yaml.SequenceNode):
        return [_read(child, (*path, i), document) for i, child in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        result: dict[str, Any] = {}
        for key_node, value_node, merged in _pairs(node, path, document.problems):
            key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else shown(key_node.value)
            if key in result and merged:
                continue
            if key in result:
                wrong = f"is set twice, first in line {document.lines[*path, key]}"
                problem = Problem(path=(*path, key), wrong=wrong, fix=f"Keep one `{key}:`", line=line_of(key_node))
                document.problems.append(problem)
            document.lines[*path, key] = line_of(key_node)
            result[key] = _read(value_node, (*path, key), document)
        return result
    document.texts[path] = text = str(node.value)
    if len(text) > yaml_reader.LONGEST_NUMBER:
        return text
    try:
        match tag:
            case "null":
                return None
            case "bool" if re.fullmatch(_CORE["bool"], text):
                return text.lower() == "true"
            case "int":
                return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
            case "float":
                return float(text)
    except ValueError:
        pass
    return text


def _pairs(
    node: yaml.MappingNode, path: Path, problems: list[Problem], *, merged: bool = False
) -> Iterator[tuple[yaml.Node, yaml.Node, bool]]:
    """Yield the pairs of a mapping, and whether `<<` merges them into it, the highest precedence first."""
    yield from [(key, value, merged) for key, value in node.value if key.tag != MERGE]
    for value in [value for key, value in node.value if key.tag == MERGE]:
        for base in value.value if isinstance(value, yaml.SequenceNode) else [value]:
            if isinstance(base, yaml.MappingNode):
                yield from _pairs(base, path, problems, merged=True)
            else:
                wrong, fix = "is not an alias of a mapping", "Write `<<: *name`, with `&name` at a mapping"
                problems.append(Problem(path=(*path, "<<"), wrong=wrong, fix=fix, line=line_of(value)))
                break  # a list such as [1, 2] is one mistake
