"""Where a namespace says that records are stored: in its ConfigMap `tfsteps`, with credentials in a Secret."""

import base64
import binascii
from typing import Any

from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.kube.credentials import AccessError
from tfsteps.kube.errors import ApiError, Stopped
from tfsteps.kube.resource import Resource
from tfsteps.runs.record_store import NOWHERE, RecordError, RecordSettings
from tfsteps.runs.store import RECORDS
from tfsteps.settings import find
from tfsteps.settings.find import SettingsUnreadableError

SECRET = "tfsteps-records"  # noqa: S105
"""As the ConfigMap it holds environment variables; that of the address is in the ConfigMap. It may be left out."""

_SECRETS = Resource("v1", "secrets", "Secret")
_PATIENCE_SECONDS, _REQUEST_SECONDS = 10.0, 5.0
_NOTHING = {403, 404}  # there is none, or nobody has granted it: then the installation keeps no records


def of_pod() -> RecordSettings | None:
    """Return the settings of this pod's namespace, as `of_namespace` does."""
    try:
        api = Api(access.find(), _PATIENCE_SECONDS, _REQUEST_SECONDS)
    except AccessError as error:
        raise RecordError(f"whether this namespace keeps records is not known: {error}") from error
    return of_namespace(api, api.access.namespace)


def of_namespace(api: Api, namespace: str) -> RecordSettings | None:
    """Return the settings of a namespace; None = it keeps no records.

    Raises:
        RecordError: They cannot be read, or are wrong.
    """
    try:
        data = find.read(api, namespace)
        if data.get(RECORDS, "").strip() in NOWHERE:
            return None
        secret = {name: _decoded(name, text) for name, text in _data(api, _SECRETS, namespace, SECRET).items()}
    except SettingsUnreadableError:  # nobody has granted it: the installation keeps no records
        return None
    except (ApiError, Stopped) as error:
        raise RecordError(f"whether namespace {namespace} keeps records is not known: {error}") from error
    return RecordSettings.of(data[RECORDS], {**data, **secret})


def _data(api: Api, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
    try:
        return dict(api.get(resource, namespace, name).get("data") or {})
    except ApiError as error:
        if error.status in _NOTHING:
            return {}
        raise


def _decoded(name: str, text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        raise RecordError(f"Secret {SECRET}: {name} is not text") from None
