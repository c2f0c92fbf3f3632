"""The kinds of objects of an API server, and their checked metadata.

Another program may answer instead of the API server, so metadata is checked.
"""

from typing import Annotated, Any

import msgspec

from tfsteps import typed_json

NAME = r"^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$"  # of an object, which goes into URLs
_Name = Annotated[str, msgspec.Meta(pattern=NAME)]


class Resource(msgspec.Struct, frozen=True):
    """One kind of object.

    Attributes:
        api: Its API: `v1`, `kubeflow.org/v1`.
        plural: Its plural.
        kind: Its kind.
        shape: The fields that are kept of listed and watched objects, as a TypedDict with `kind`, `apiVersion` and
            `metadata`; None = all.
    """

    api: str
    plural: str
    kind: str
    shape: Any = None

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """Return the path of a list, of one object, or of its subresource; no namespace = all namespaces."""
        root = f"/apis/{self.api}" if "/" in self.api else f"/api/{self.api}"
        parts = [root, *(["namespaces", namespace] if namespace else []), self.plural, name, subresource]
        return "/".join(part for part in parts if part)


NAMESPACES = Resource("v1", "namespaces", "Namespace")
PODS = Resource("v1", "pods", "Pod")
CLAIMS = Resource("v1", "persistentvolumeclaims", "PersistentVolumeClaim")
EVENTS = Resource("v1", "events", "Event")


class Owner(msgspec.Struct, frozen=True, rename="camel"):
    """A reference to an object that owns another one."""

    api_version: str
    kind: str
    name: str
    uid: Annotated[str, msgspec.Meta(min_length=1)]


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """The metadata of an object."""

    namespace: _Name
    name: _Name
    uid: Annotated[str, msgspec.Meta(min_length=1)]
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Owner] | None = None


class _ObjectWithMetadata(msgspec.Struct, frozen=True):
    metadata: Metadata


def metadata_of(item: Any) -> Metadata:
    """Return the metadata of an object. ValueError if a field is missing or invalid."""
    return typed_json.convert(item, _ObjectWithMetadata).metadata
