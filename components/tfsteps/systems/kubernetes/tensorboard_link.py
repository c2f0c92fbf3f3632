"""Where the TensorBoard is that an operator runs for a job."""

from typing import Any

import msgspec

from tfsteps.kube.client import Api, Resource
from tfsteps.kube.errors import ApiError


class TensorBoardLink(msgspec.Struct, frozen=True, kw_only=True):
    """A TensorBoard beside a job: a path of the API server leads to it, or an object's `status.url` says where it is.

    Attributes:
        path: From the API server's root, as `kubectl proxy` serves it; empty = the object knows.
        resource: What the object is; None = there is none.
        name: The object's name.
        note: What is wrong with it; empty = nothing.
    """

    path: str = ""
    resource: Resource | None = None
    name: str = ""
    note: str = ""


def address(api: Api, link: TensorBoardLink, namespace: str) -> str:
    """Return the address of a TensorBoard for a browser; empty = it has none yet, or we may not ask."""
    if link.resource is None:
        return api.access.server + link.path
    try:
        item: dict[str, Any] = api.get(link.resource, namespace, link.name)
    except ApiError:
        return ""
    return str((item.get("status") or {}).get("url") or "")
