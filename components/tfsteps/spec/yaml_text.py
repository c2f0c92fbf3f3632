"""Reads a YAML or JSON text as plain data with line numbers.

It uses YAML 1.2's core schema: `on`, `no` and `1:30` are text. A duplicate key is a problem.
"""

import re
from collections.abc import Iterator
from typing import Any, NoReturn

import msgspec
import yaml

from tfsteps import yaml_reader
from tfsteps.spec.document import Document
from tfsteps.spec.problems import Path, Problem, SpecError, manifest_problem, shown
from tfsteps.yaml_reader import SEVERAL, YamlError, line_of, merges

MAX_BYTES = 1 << 20  # a larger file is not a job file

_CORE = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?",
    "merge": r"<<",
}
_MANIFEST = re.compile(r"^apiVersion:", re.MULTILINE)
_TAG = "tag:yaml.org,2002:"


class _Loader(yaml_reader.Loader):
    """Composes nodes, tagging plain scalars by YAML 1.2's core schema instead of 1.1's."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012


for _name, _pattern in _CORE.items():
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(rf"^(?:{_pattern})$"), None)


def parse(text: str, source: str = "job") -> Document:
    """Return the one YAML or JSON document in `text`; `source` is its name in messages.

    Raises:
        SpecError: It is too large, too deep, not YAML, more than one document, or not a mapping.
    """
    root = _composed(text, source)
    if not isinstance(root, yaml.MappingNode):
        _refuse(source, "is empty, or not a job file", "Start with `name:` and `roles:`; `tfsteps init` writes a file")
    builder = _Builder()
    value = builder.build(root, ())
    return Document(value, builder.lines, builder.texts, builder.problems, source)


def parse_value(text: str, source: str, path: Path) -> Document:
    """Return the YAML value in `text` as the value at `path` of a job; an empty `text` is empty text, not null.

    Raises:
        SpecError: It is too large, too deep, or not YAML.
    """
    try:
        root = _composed(text or "''", source)
    except SpecError as error:
        (problem,) = error.problems
        fix = f"Quote the value for YAML too: {source}='\"...\"'"
        raise SpecError([msgspec.structs.replace(problem, path=path, fix=fix, line=None)], source) from error
    builder = _Builder()
    value = builder.build(root, path) if root else None
    return Document(value, builder.lines, builder.texts, builder.problems, source)


def _composed(text: str, source: str) -> yaml.Node | None:
    """Return the node of the one document in `text`; None for an empty text."""
    if len(text) > MAX_BYTES:
        _refuse(source, "is longer than 1 MiB", "Check that this is the job file")
    try:
        return yaml_reader.compose(text, _Loader)
    except YamlError as error:
        if error.wrong == SEVERAL and _MANIFEST.search(text):
            raise SpecError([manifest_problem(source)], source) from error
        _refuse(source, error.wrong, error.fix, error.line)


def _refuse(source: str, wrong: str, fix: str, line: int = 1) -> NoReturn:
    raise SpecError([Problem(path=(), wrong=wrong, fix=fix, line=line)], source)


class _Builder:
    """Converts nodes to data, and records their lines and texts."""

    def __init__(self) -> None:
        self.lines: dict[Path, int] = {}
        self.texts: dict[Path, str] = {}
        self.problems: list[Problem] = []

    def build(self, node: yaml.Node, path: Path) -> Any:
        self.lines.setdefault(path, line_of(node))
        if node.tag.removeprefix(_TAG) not in ("str", "seq", "map", *_CORE):
            tag = "!" + node.tag.removeprefix(_TAG).removeprefix("!")
            self.problems.append(
                Problem(path=path, value=tag, wrong="is not a known tag", fix="Remove it", line=line_of(node))
            )
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(child, (*path, i)) for i, child in enumerate(node.value)]
        self.texts[path] = node.value
        return _scalar(node)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if merges(key_node):
                continue
            key = _key(key_node)
            if key in result:
                self._twice(key, (*path, key), key_node)
            self.lines[*path, key] = line_of(key_node)
            result[key] = self.build(value_node, (*path, key))
        for key_node, value_node in self._merged(node, path):
            key = _key(key_node)
            if key not in result:
                self.lines[*path, key] = line_of(key_node)
                result[key] = self.build(value_node, (*path, key))
        return result

    def _merged(self, node: yaml.MappingNode, path: Path) -> Iterator[tuple[yaml.Node, yaml.Node]]:
        """Yield the pairs that `<<` merges into a mapping, the highest precedence first."""
        for _, value_node in [pair for pair in node.value if merges(pair[0])]:
            bases = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
            for base in bases:
                if not isinstance(base, yaml.MappingNode):
                    line = line_of(value_node)
                    wrong, fix = "is not an alias of a mapping", "Write `<<: *name`, with `&name` at a mapping"
                    self.problems.append(Problem(path=(*path, "<<"), wrong=wrong, fix=fix, line=line))
                    continue
                yield from [pair for pair in base.value if not merges(pair[0])]
                yield from self._merged(base, path)

    def _twice(self, key: str, path: Path, node: yaml.Node) -> None:
        first, line = self.lines[path], line_of(node)
        wrong = f"is set twice, first in line {first}"
        self.problems.append(Problem(path=path, wrong=wrong, fix=f"Keep one `{key}:`", line=line))


def _key(node: yaml.Node) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else shown(node.value)


def _scalar(node: yaml.Node) -> str | float | bool | None:
    """Return the value of a scalar; its text if it does not match its tag, or is a number that is too long."""
    text = str(node.value)
    if len(text) > yaml_reader.LONGEST_NUMBER:
        return text
    try:
        match node.tag.removeprefix(_TAG):
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
