"""Reads YAML of others: no text can crash, hang or fail it other than by a `YamlError`. Imports nothing of tfsteps.

All YAML that tfsteps reads passes through here, because PyYAML alone does not survive a hostile text: libyaml crashes
on deep nesting, aliases and merges expand without limit, and odd numbers and dates raise errors of any type.
"""

import re
from collections.abc import Iterator
from typing import Any

import yaml

MAX_DEPTH = 100
"""Levels of nesting, with aliases written out. libyaml's composer crashes at about ten thousand."""

MAX_VALUES = 100_000
"""Values that aliases and merges may expand to. A text may have more if it writes them out."""

LONGEST_NUMBER = 250
"""Characters of a number; a longer one is text. Python refuses to print integers of 4,300 digits."""

SEVERAL = "contains more than one document"
"""What is wrong with a text of which one document is expected."""

TAG = "tag:yaml.org,2002:"
MERGE = f"{TAG}merge"
"""The tag of the key `<<`."""


class YamlError(ValueError):
    """A text that is not YAML, or that no machine should read. Its own words are never part of the message.

    Attributes:
        wrong: What is wrong: `is not YAML: found undefined alias`.
        fix: What to do.
        line: Its line, from 1.
        column: Its column, from 1.
    """

    def __init__(self, wrong: str, fix: str, line: int = 1, column: int = 1) -> None:
        """Store the fields; the message names the line."""
        self.wrong, self.fix, self.line, self.column = wrong, fix, line, column
        super().__init__(f"line {line} {wrong}")


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Composes nodes of limited depth. A subclass adds how plain scalars are tagged, and how nodes become values."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012
    _depth = 0

    def descend_resolver(self, parent: yaml.Node | None, _index: object) -> None:
        """Note that the composer enters a node; PyYAML calls it for each, and needs it for nothing else here."""
        self._depth += 1
        if parent and self._depth > MAX_DEPTH + 1:  # scalars within the deepest list count, too
            raise _TooMuchError(f"is nested more than {MAX_DEPTH} levels deep", "Close the brackets", parent)

    def ascend_resolver(self) -> None:
        """Note that the composer leaves a node."""
        self._depth -= 1


class _PlainLoader(Loader):
    """Gives plain data as YAML 1.1 has it, but a date as text; engines and Kubernetes do the same."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, pattern) for tag, pattern in pairs if tag != f"{TAG}timestamp"]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    yaml_constructors: dict[str | None, Any] = {  # noqa: RUF012  no sets, bytes and pairs: JSON has none
        None: yaml.SafeLoader.yaml_constructors[None],
        **{TAG + name: yaml.SafeLoader.yaml_constructors[TAG + name] for name in ("null", "str", "seq", "map")},
        f"{TAG}timestamp": yaml.SafeLoader.construct_yaml_str,
    }


def _scalar(loader: _PlainLoader, node: yaml.ScalarNode) -> Any:
    """Return the value of a scalar; its text if it does not match its tag, or is too long."""
    text = loader.construct_scalar(node)
    try:
        return text if len(text) > LONGEST_NUMBER else yaml.SafeLoader.yaml_constructors[node.tag](loader, node)
    except (ValueError, LookupError, OverflowError):
        return text


for _name in ("bool", "int", "float"):
    _PlainLoader.add_constructor(TAG + _name, _scalar)


def documents(text: str, *, unique: bool = False) -> list[Any]:
    """Return the documents of a YAML or JSON text as plain data; None = an empty document.

    Args:
        text: The text.
        unique: Refuse a key that a mapping has twice; False = the last one counts.

    Raises:
        YamlError: It is neither, too deep, or its aliases expand to too much.
    """
    text = _as_yaml(text)
    try:
        return list(_documents(text, unique=unique))
    except (yaml.YAMLError, UnicodeEncodeError, _TooMuchError) as error:
        raise yaml_error(error, text) from None  # PyYAML's own message shows the line


def document(text: str) -> Any:
    """Return the first document of a text; None = there is none, or it is empty. YamlError as in `documents`."""
    return next(iter(documents(text)), None)


def compose(text: str, loader: type[Loader]) -> yaml.Node | None:
    """Return the node of the one document in a YAML or JSON text, its aliases checked; None for an empty text.

    Raises:
        YamlError: It is neither, more than one document, too deep, or its aliases expand to too much.
    """
    text = _as_yaml(text)
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=loader)
        if node:
            _measure(node, MAX_VALUES, {})
    except (yaml.YAMLError, UnicodeEncodeError, _TooMuchError) as error:
        raise yaml_error(error, text) from error
    return node


def line_of(node: yaml.Node) -> int:
    """Return the line of a node, from 1."""
    return node.start_mark.line + 1 if node.start_mark else 1


def _documents(text: str, *, unique: bool) -> Iterator[Any]:
    loader = _PlainLoader(text)
    limit = max(MAX_VALUES, 2 * len(text))  # no text has more values without an alias
    try:
        while loader.check_node():
            node = loader.get_node()
            _measure(node, limit, {})
            if unique:
                _check_keys(node)
            yield loader.construct_document(node)
    finally:
        loader.dispose()


def _as_yaml(text: str) -> str:
    """Return JSON without what YAML reads differently: tabs, surrogate pairs, line ends and controls."""
    if not text.lstrip().startswith("{"):
        return text
    pair = r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
    joined = re.sub(pair, lambda match: bytes.fromhex(match[1] + match[2]).decode("utf-16-be"), text)
    escaped = re.sub(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda match: f"\\u{ord(match[0]):04x}", joined)
    return escaped.replace("\t", " ")  # a JSON string cannot contain one


# --- limits


class _TooMuchError(Exception):
    """A node that is too deep, expands to too much, or has a key twice."""

    def __init__(self, wrong: str, fix: str, node: yaml.Node) -> None:
        self.error = YamlError(wrong, fix, line_of(node))
        super().__init__(wrong)


def _measure(node: yaml.Node, limit: int, measures: dict[int, tuple[int, int] | None]) -> tuple[int, int]:
    """Return how many values a node expands to, and in how many levels.

    Args:
        node: The node.
        limit: How many values it may expand to.
        measures: Of the nodes so far: each is measured once, however many aliases it has. None = of a node above.

    Raises:
        _TooMuchError: It has an alias of what it is in, or aliases that expand to too much.
    """
    if isinstance(node, yaml.ScalarNode):
        return 1, 0
    if id(node) in measures:
        if known := measures[id(node)]:
            return known
        raise _TooMuchError("has an alias that refers to itself", "Write the value out", node)
    measures[id(node)] = None
    count, depth = 1, 0
    for child in node.value:
        for part in child if isinstance(child, tuple) else (child,):
            values, levels = _measure(part, limit, measures)
            count, depth = count + values, max(depth, levels)
    if count > limit or depth >= MAX_DEPTH:
        wrong = f"has aliases that expand to more than {MAX_DEPTH} levels or {limit} values"
        raise _TooMuchError(wrong, "Write fewer aliases", node)
    measures[id(node)] = count, depth + 1
    return count, depth + 1


def _check_keys(root: yaml.Node) -> None:
    """Raise _TooMuchError for a key that a mapping has twice."""
    nodes, checked = [root], set()
    while nodes:
        node = nodes.pop()
        if isinstance(node, yaml.ScalarNode) or id(node) in checked:
            continue
        checked.add(id(node))
        lines: dict[str, int] = {}
        for child in node.value:
            key, value = child if isinstance(child, tuple) else (None, child)
            nodes.append(value)
            if not isinstance(key, yaml.ScalarNode) or key.tag == MERGE:
                continue
            if key.value in lines:
                wrong = f"has {key.value[:60]!r} a second time, first in line {lines[key.value]}"
                raise _TooMuchError(wrong, "Keep one of them", key)
            lines[key.value] = line_of(key)


# --- errors


def yaml_error(error: Exception, text: str) -> YamlError:
    """Return what is wrong with a text that PyYAML or a limit refuses."""
    if isinstance(error, _TooMuchError):
        return error.error
    if isinstance(error, UnicodeEncodeError):
        return YamlError("contains characters that are not Unicode", "Save the file as UTF-8")
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return YamlError("is not YAML: it contains control characters", "Check that this is the right file", line)
    lines = text.splitlines() or [""]
    marks = [getattr(error, name, None) for name in ("problem_mark", "context_mark")]
    # The end of an unclosed bracket is at the end of the text, its start in the context.
    places = [(mark.line, mark.column) for mark in marks if mark and mark.line < len(lines)]
    at, column = places[0] if places else (len(lines) - 1, len(lines[-1]))
    reason = str(getattr(error, "problem", None) or error)
    if reason == "but found another document":
        fix = "Keep one document: remove `---` and what follows it"
        return YamlError(SEVERAL, fix, at + 1)
    if lines[at][column:].startswith("\t"):
        return YamlError("is not YAML: it is indented with a tab", "Indent with spaces", at + 1)
    return YamlError(f"is not YAML: {reason}", "Check the indentation, quotes and brackets", at + 1, column + 1)
