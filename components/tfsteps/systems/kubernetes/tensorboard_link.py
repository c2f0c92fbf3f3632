"""The address of the TensorBoard that an operator runs for a job."""

from typing import TYPE_CHECKING, Any

import msgspec

from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import Resource

if TYPE_CHECKING:
    from tfsteps.kube.client import Api


class TensorBoardLink(msgspec.Struct, frozen=True, kw_only=True):
    """A TensorBoard beside a job, reached by a path of the API server, or by `status.url` of an object.

    Attributes:
        path: From the API server's root, as `kubectl proxy` serves it; empty = read `status.url` of the object.
        resource: The kind of the object; None = no object.
        name: The object's name.
        note: A problem of the TensorBoard; empty = none.
    """

    path: str = ""
    resource: Resource | None = None
    name: str = ""
    note: str = ""


def address(api: "Api", link: TensorBoardLink, namespace: str) -> str:
    """Return the address of a TensorBoard for a browser; empty = none yet, or not permitted."""
    if link.resource is None:
        return api.access.server + link.path
    try:
        item: dict[str, Any] = api.get(link.resource, namespace, link.name)
    except ApiError:
        return ""
    return str((item.get("status") or {}).get("url") or "")
