"""Checks of answers before they are used: proxies and log-in pages also answer with HTTP 200.

Each function that is named after what it expects returns a check: called with the decoded answer, it raises a
ShapeError unless the answer is that.
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, TypeVar

import msgspec

from tfsteps import typed_json
from tfsteps.json_errors import NOT_READABLE
from tfsteps.kube.resource import Resource

Check = Callable[[Mapping[str, Any]], object]

MALFORMED = (LookupError, TypeError, ValueError, AttributeError)
"""Errors of code that reads fields which are not checked here, if the answer has another shape."""

_T = TypeVar("_T")
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class ShapeError(Exception):
    """An answer is not the expected object; the message says what is wrong."""


CUT = "tfsteps.dev/cut"
"""Key of an object of which `decode` left out values; its value is the reason."""

_DEEPEST = 100  # levels; objects of Kubernetes have 20
_TOO_DEEP = f"left out: nested more than {_DEEPEST} levels deep"
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|(?P<open>[\[{]+)|(?P<close>[\]}]+)', re.DOTALL)


def decode(content: bytes | str, shape: Any = None) -> dict[str, Any]:
    """Return the JSON object that `content` is. ShapeError if it is anything else.

    Of the objects of a list or of a watch's event, only the fields of `shape`, a TypedDict, are decoded, if they fit.

    Anybody may store an object that is nested too deep to be decoded. Its deepest values are left out then, so that
    the other objects of a list are not lost with it; objects without such a value are whole, the others have a `CUT`.
    """
    if shape:
        with contextlib.suppress(*NOT_READABLE):
            return _shaped(content, shape)
    too_deep = False
    try:
        try:
            answer = typed_json.decode(content, Any)
        except RecursionError:
            text, too_deep = content.encode() if isinstance(content, str) else content, True
            answer = typed_json.decode(b"".join(_shallow(text)), Any)
    except NOT_READABLE as error:
        raise ShapeError(f"no JSON: {error}" if content else "it is empty") from error
    if not isinstance(answer, dict):
        raise ShapeError(f"expected a JSON object, got {type(answer).__name__}")
    for item in (answer.get("items") or [answer.get("object") or answer]) if too_deep else ():
        if isinstance(item, dict) and _TOO_DEEP.encode() in msgspec.json.encode(item):
            item[CUT] = _TOO_DEEP
    return answer


def _shaped(content: bytes | str, shape: Any) -> dict[str, Any]:
    """Return a list or an event with the fields of `shape` of its objects. One of NOT_READABLE if they do not fit."""
    fields = typed_json.decode(content, dict[str, msgspec.Raw])
    items, item = fields.pop("items", None), fields.pop("object", None)
    answer: dict[str, Any] = {name: typed_json.decode(raw, Any) for name, raw in fields.items()}
    if items is not None:
        answer["items"] = typed_json.decode(items, list[shape] | None)
    if item is not None:
        of_kind = answer.get("type") != "ERROR"  # which has a Status
        answer["object"] = typed_json.decode(item, shape if of_kind else dict[str, Any])
    return answer


def _shallow(text: bytes) -> Iterator[bytes]:
    """Yield the parts of a JSON text, with a string in the place of each array and object that is too deep."""
    depth = kept = 0
    for token in _TOKEN.finditer(text):
        outer = _DEEPEST - depth  # how many levels are left
        if opened := token["open"]:
            depth += len(opened)
            if 0 <= outer < len(opened):
                yield text[kept : token.start() + outer]
                yield msgspec.json.encode(_TOO_DEEP)
        elif closed := token["close"]:
            depth -= len(closed)
            if 0 < -outer <= len(closed):
                kept = token.start() - outer
    if depth <= _DEEPEST:
        yield text[kept:]


def an_object(resource: Resource, name: str = "", *, stored: bool = True) -> Check:
    """Expect one object of a kind, of this name unless it is empty, with a version unless it was not `stored`."""

    def check(answer: Mapping[str, Any]) -> None:
        item = _convert(answer, _ObjectAnswer)
        _expect(item, resource, required=True)
        if stored and not item.metadata.version:
            raise ShapeError(f"the {resource.kind} has no metadata.resourceVersion")
        if name and item.metadata.name != name:
            raise ShapeError(f"expected {resource.kind} {name}, got {item.metadata.name}")

    return check


def a_list(resource: Resource) -> Check:
    """Expect the list of objects of a kind."""

    def check(answer: Mapping[str, Any]) -> None:
        listing = _convert(answer, _List)
        if (listing.kind, listing.api) != (f"{resource.kind}List", resource.api):
            raise ShapeError(f"expected a {resource.kind}List of {resource.api}, got {listing.kind} of {listing.api}")
        for item in listing.items or []:
            _expect(item, resource, required=False)  # items of built-in kinds omit it

    return check


def an_event(resource: Resource) -> Check:
    """Expect one event of a watch: a change of an object, a bookmark, or an error with its Status."""
    an_item = an_object(resource)

    def check(answer: Mapping[str, Any]) -> None:
        event = _convert(answer, _WatchEvent)
        match event.type:
            case "ADDED" | "MODIFIED" | "DELETED":
                an_item(event.object)
            case "BOOKMARK":
                _expect(_convert(event.object, _Bookmark), resource, required=True)
            case "ERROR":
                of_kind("Status", _FailureStatus)(event.object)
            case other:
                raise ShapeError(f"there is no event {other!r:.40}")

    return check


def a_deletion(resource: Resource, name: str) -> Check:
    """Expect the answer to a deletion: a Status, or the object that is being deleted."""
    an_item = an_object(resource, name)

    def check(answer: Mapping[str, Any]) -> None:
        if answer.get("kind") != "Status":
            an_item(answer)
        elif answer.get("status") != "Success":
            raise ShapeError("the Status is no success")

    return check


def a_review(resource: Resource) -> Check:
    """Expect an answered review, which has a status and no name."""
    return of_kind(resource.kind, _Review)


def of_kind(kind: str, shape: type[msgspec.Struct]) -> Check:
    """Expect a kind that is not an API object, with the fields of `shape`."""

    def check(answer: Mapping[str, Any]) -> None:
        if answer.get("kind") != kind:
            raise ShapeError(f"expected {kind}, got {answer.get('kind')!r:.40}")
        _convert(answer, shape)

    return check


def an_answer(shape: type[msgspec.Struct]) -> Check:
    """Expect the fields of `shape`; other fields are ignored."""
    return lambda answer: _convert(answer, shape)


class _Meta(msgspec.Struct):
    name: _Text
    uid: _Text
    version: str = msgspec.field(name="resourceVersion", default="")
    namespace: str = ""


class _ObjectAnswer(msgspec.Struct):
    """The fields of every object. Others are not checked: one odd object must not hide the rest of a list."""

    metadata: _Meta
    kind: str = ""
    api: str = msgspec.field(name="apiVersion", default="")


typed_json.build(_ObjectAnswer)  # here and not in a signal handler, which may have interrupted that


class _ListMeta(msgspec.Struct):
    version: _Text = msgspec.field(name="resourceVersion")
    more: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    kind: str
    metadata: _ListMeta
    items: list[_ObjectAnswer] | None
    api: str = msgspec.field(name="apiVersion")


class _WatchEvent(msgspec.Struct):
    type: str
    object: dict[str, Any]


class _FailureStatus(msgspec.Struct):
    code: int = 0
    message: str = ""
    reason: str = ""


class _BookmarkMeta(msgspec.Struct):
    version: _Text = msgspec.field(name="resourceVersion")


class _Bookmark(msgspec.Struct):
    kind: str
    metadata: _BookmarkMeta
    api: str = msgspec.field(name="apiVersion")


class _ReviewRule(msgspec.Struct):
    verbs: list[str] | None = None
    groups: list[str] | None = msgspec.field(name="apiGroups", default=None)
    resources: list[str] | None = None


class _ReviewStatus(msgspec.Struct):
    rules: list[_ReviewRule] | None = msgspec.field(name="resourceRules", default=None)


class _Review(msgspec.Struct):
    status: _ReviewStatus


def _convert(answer: Mapping[str, Any], shape: type[_T]) -> _T:
    try:
        return typed_json.convert(answer, shape)
    except msgspec.ValidationError as error:
        raise ShapeError(str(error)) from error


def _expect(item: _ObjectAnswer | _Bookmark, resource: Resource, *, required: bool) -> None:
    """Check kind and apiVersion; they may be missing unless they are `required`."""
    if (required or item.kind or item.api) and (item.kind, item.api) != (resource.kind, resource.api):
        raise ShapeError(f"expected {resource.kind} of {resource.api}, got {item.kind} of {item.api}")
