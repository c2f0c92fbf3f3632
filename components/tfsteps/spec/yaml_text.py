"""Reads a YAML or JSON text as plain data with line numbers.

It uses YAML 1.2's core schema: `on`, `no` and `1:30` are text. A duplicate key is a problem.
"""

import contextlib
import re
from collections.abc import Iterator
from typing import Any, NoReturn

import msgspec
import yaml

from tfsteps.spec.document import Document
from tfsteps.spec.problems import Path, Problem, SpecError, shown

MAX_BYTES = 1 << 20  # a larger file is not a job file
_MAX_NODES = 100_000  # nested aliases can expand a small text without limit
_MAX_DEPTH = 100  # libyaml's composer crashes at about ten thousand

_CORE = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?",
    "merge": r"<<",
}
_TAG = "tag:yaml.org,2002:"


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
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
    builder = _Builder(source)
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
    builder = _Builder(source)
    value = builder.build(root, path) if root else None
    return Document(value, builder.lines, builder.texts, builder.problems, source)


def _composed(text: str, source: str) -> yaml.Node | None:
    """Return the node of the one document in `text`; None for an empty text."""
    if len(text) > MAX_BYTES:
        _refuse(source, "is longer than 1 MiB", "Check that this is the job file")
    if text.lstrip().startswith("{"):
        text = _json_as_yaml(text)
    try:
        _check_depth(text, source)
        node: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        _refuse(source, *_explained(error, text))
    except UnicodeEncodeError:
        _refuse(source, "contains characters that are not Unicode", "Save the file as UTF-8")
    return node


def _refuse(source: str, wrong: str, fix: str, line: int = 1) -> NoReturn:
    raise SpecError([Problem(path=(), wrong=wrong, fix=fix, line=line)], source)


def _json_as_yaml(text: str) -> str:
    """Return JSON text without what YAML reads differently: tabs, surrogate pairs, line ends and controls."""
    pair = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    joined = re.sub(pair, lambda match: str(msgspec.json.decode(f'"{match[0]}"')), text)
    escaped = re.sub(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda match: f"\\u{ord(match[0]):04x}", joined)
    return escaped.replace("\t", " ")  # a JSON string cannot contain one


def _check_depth(text: str, source: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            _refuse(source, f"is nested more than {_MAX_DEPTH} levels deep", "Close the brackets", _line(event))


def _explained(error: yaml.YAMLError, text: str) -> tuple[str, str, int]:
    """Return the problem, the fix and the line."""
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return "is not YAML: it contains control characters", "Check that this is the job file", line
    lines = text.splitlines()
    marks = [getattr(error, name, None) for name in ("problem_mark", "context_mark")]
    places = [(mark.line, mark.column) for mark in marks if mark and mark.line < len(lines)]
    at, column = (
        places[0] if places else (0, 0)
    )  # the end of an unclosed bracket is at the end of the text, its start in the context
    reason = str(getattr(error, "problem", None) or error)
    if reason == "but found another document":
        return "contains more than one document", "Keep one job per file: remove `---` and what follows it", at + 1
    if lines[at : at + 1] and lines[at][column:].startswith("\t"):
        return "is not YAML: it is indented with a tab", "Indent with spaces", at + 1
    return f"is not YAML: {reason}", "Check the indentation, quotes and brackets", at + 1


def _line(part: yaml.Node | yaml.Event) -> int:
    return part.start_mark.line + 1 if part.start_mark else 1


class _Builder:
    """Converts nodes to data, and records their lines and texts."""

    def __init__(self, source: str) -> None:
        self.lines: dict[Path, int] = {}
        self.texts: dict[Path, str] = {}
        self.problems: list[Problem] = []
        self._source = source
        self._open: set[int] = set()
        self._count = 0

    def build(self, node: yaml.Node, path: Path) -> Any:
        self.lines.setdefault(path, _line(node))
        self._check_tag(node, path)
        with self._inside(node):
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                return [self.build(child, (*path, i)) for i, child in enumerate(node.value)]
            self.texts[path] = node.value
            return _scalar(node)

    @contextlib.contextmanager
    def _inside(self, node: yaml.Node) -> Iterator[None]:
        """Refuse aliases that refer to themselves, or expand to too many levels or values."""
        self._count += 1
        if id(node) in self._open:
            _refuse(self._source, "has an alias that refers to itself", "Write the value out", _line(node))
        if len(self._open) > _MAX_DEPTH or self._count > _MAX_NODES:
            wrong = f"has aliases that expand to more than {_MAX_DEPTH} levels or {_MAX_NODES} values"
            _refuse(self._source, wrong, "Write fewer aliases", _line(node))
        self._open.add(id(node))
        yield
        self._open.discard(id(node))

    def _check_tag(self, node: yaml.Node, path: Path) -> None:
        known = ("str", "seq", "map", *_CORE)
        if node.tag.removeprefix(_TAG) not in known:
            tag = "!" + node.tag.removeprefix(_TAG).removeprefix("!")
            self.problems.append(
                Problem(path=path, value=tag, wrong="is not a known tag", fix="Remove it", line=_line(node))
            )

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if _merges(key_node):
                continue
            key = _key(key_node)
            if key in result:
                self._twice(key, (*path, key), key_node)
            self.lines[*path, key] = _line(key_node)
            result[key] = self.build(value_node, (*path, key))
        for key_node, value_node in self._merged(node, path):
            key = _key(key_node)
            if key not in result:
                self.lines[*path, key] = _line(key_node)
                result[key] = self.build(value_node, (*path, key))
        return result

    def _merged(self, node: yaml.MappingNode, path: Path) -> Iterator[tuple[yaml.Node, yaml.Node]]:
        """Yield the pairs that `<<` merges into a mapping, the highest precedence first."""
        for _, value_node in [pair for pair in node.value if _merges(pair[0])]:
            bases = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
            for base in bases:
                if not isinstance(base, yaml.MappingNode):
                    line = _line(value_node)
                    wrong, fix = "is not an alias of a mapping", "Write `<<: *name`, with `&name` at a mapping"
                    self.problems.append(Problem(path=(*path, "<<"), wrong=wrong, fix=fix, line=line))
                    continue
                with self._inside(base):
                    yield from [pair for pair in base.value if not _merges(pair[0])]
                    yield from self._merged(base, path)

    def _twice(self, key: str, path: Path, node: yaml.Node) -> None:
        first, line = self.lines[path], _line(node)
        wrong = f"is set twice, first in line {first}"
        self.problems.append(Problem(path=path, wrong=wrong, fix=f"Keep one `{key}:`", line=line))


def _merges(key: yaml.Node) -> bool:
    return bool(key.tag == f"{_TAG}merge")


def _key(node: yaml.Node) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else shown(node.value)


def _scalar(node: yaml.Node) -> str | float | bool | None:
    """Return the value of a scalar; its text if it does not match its tag, or is a number that is too long."""
    text = str(node.value)
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
