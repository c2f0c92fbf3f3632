"""Uploads the artifacts of a failed step: Kubeflow Pipelines itself only uploads those of steps that succeed."""

import base64
import binascii
import datetime as dt
import pathlib
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps import typed_json
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import Resource

SECONDS = 8.0
"""Time after which no further part of a file is sent; a request in progress has its own limit."""

_REQUEST_SECONDS = 3.0
_PART_BYTES, _READ_BYTES = 5 << 20, 1 << 20
_PARTS_AT_ONCE = 2  # in memory
_REASON_CHARACTERS = 300
_CONFIG_MAPS = Resource("v1", "configmaps", "ConfigMap")
_SECRETS = Resource("v1", "secrets", "Secret")
_OWN_ENDPOINTS = (("minio-service.kubeflow", 9000), ("seaweedfs.kubeflow", 9000))  # up to 2.15, and later
CONFIG_MAP = "kfp-launcher"
SECRET = "mlpipeline-minio-artifact"  # noqa: S105  a name
SCHEMES = ("minio", "s3", "gs")
_PROVIDERS = "providers"


class StoreError(Exception):
    """The object store cannot be used; the message says why."""


def _squeezed(name: str) -> str:
    return name.replace("_", "")


class SecretRef(msgspec.Struct, frozen=True, kw_only=True, rename=_squeezed):
    """A Secret of the pod's namespace, and the keys that it holds the credentials under.

    Attributes:
        secret_name: The Secret.
        access_key_key: S3's access key ID.
        secret_key_key: S3's secret access key.
        token_key: The JSON key of a service account of Google Cloud.
    """

    secret_name: str
    access_key_key: str = ""
    secret_key_key: str = ""
    token_key: str = ""


class _Credentials(msgspec.Struct, frozen=True, kw_only=True, rename=_squeezed):
    from_env: bool = False
    secret_ref: SecretRef | None = None


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True, rename=_squeezed):
    """How a bucket is reached.

    Attributes:
        endpoint: `host:port`, with or without a scheme; empty = the provider's own.
        region: Empty = the environment's.
        disable_ssl: Whether an endpoint without a scheme is reached over plain HTTP; None = it is not.
        force_path_style: Whether the bucket is a part of the path, not of the host; None = it is.
        credentials: None = the environment's.
    """

    endpoint: str = ""
    region: str = ""
    disable_ssl: bool | None = None
    force_path_style: bool | None = None
    credentials: _Credentials | None = None

    @property
    def secret(self) -> SecretRef | None:
        """The Secret with the credentials; None = the environment has them."""
        return None if self.credentials is None or self.credentials.from_env else self.credentials.secret_ref

    @property
    def url(self) -> str:
        """The endpoint as a URL; empty = the provider's own."""
        if not self.endpoint or self.endpoint.lower().removeprefix("https://").startswith("s3.amazonaws.com"):
            return ""
        if self.endpoint.startswith(("http://", "https://")):
            return self.endpoint
        return f"{'http' if self.disable_ssl else 'https'}://{self.endpoint}"


class _StoreOverride(StoreSettings, frozen=True, kw_only=True, rename=_squeezed):
    bucket_name: str
    key_prefix: str = ""


class _Provider(msgspec.Struct, frozen=True):
    default: StoreSettings | None = None
    overrides: list[_StoreOverride] = []


_OWN = StoreSettings(
    region="minio",
    disable_ssl=True,
    credentials=_Credentials(
        secret_ref=SecretRef(secret_name=SECRET, access_key_key="accesskey", secret_key_key="secretkey")  # noqa: S106
    ),
)


def split(uri: str) -> tuple[str, str, str]:
    """Return scheme, bucket and key of an artifact's URI; the scheme is empty where it is none of an object store."""
    scheme, _, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    return (scheme, bucket, key) if scheme in SCHEMES and key else ("", "", "")


def store_settings(uri: str, config: Mapping[str, str], own_endpoint: str) -> StoreSettings:
    """Return how the bucket of an artifact is reached.

    Args:
        uri: Of the artifact.
        config: The data of the ConfigMap; empty = there is none.
        own_endpoint: `host:port` of the store that comes with Kubeflow Pipelines.

    Raises:
        StoreError: The ConfigMap cannot be read, or names no credentials.
    """
    scheme, bucket, key = split(uri)
    provider = _provider(scheme, config.get(_PROVIDERS, ""))
    if provider.default is None and not provider.overrides:
        return msgspec.structs.replace(_OWN, endpoint=own_endpoint) if scheme == "minio" else StoreSettings()
    if provider.default is None:
        raise StoreError(f"ConfigMap {CONFIG_MAP} has no default for {scheme}")
    applied = provider.default
    for override in provider.overrides:
        if override.bucket_name == bucket and key.startswith(override.key_prefix):
            applied = _merged(provider.default, override)
            break
    if applied.credentials is None or not (applied.credentials.from_env or applied.credentials.secret_ref):
        raise StoreError(f"ConfigMap {CONFIG_MAP} has no credentials for {scheme}://{bucket}")
    return applied


def _provider(scheme: str, text: str) -> _Provider:
    from tfsteps import yaml_reader  # noqa: PLC0415  of a failed step alone

    try:
        providers = _lower(yaml_reader.document(text) or {})
        return typed_json.convert(providers.get(scheme, {}), _Provider)
    except (yaml_reader.YamlError, msgspec.ValidationError, AttributeError) as error:
        raise StoreError(f"`{_PROVIDERS}` of ConfigMap {CONFIG_MAP} cannot be read: {error}") from error


def _merged(default: StoreSettings, override: _StoreOverride) -> StoreSettings:
    """Return the default with what the override sets; its credentials count even where it has none."""
    changes = {name: getattr(override, name) for name in StoreSettings.__struct_fields__}
    overrides = {name: value for name, value in changes.items() if value not in (None, "")}
    return msgspec.structs.replace(default, **{**overrides, "credentials": override.credentials})


def _lower(value: Any) -> Any:
    """Return `value` as KFP's launcher reads it: the case of keys does not matter, and null = not set."""
    match value:
        case dict():
            return {str(key).lower(): _lower(item) for key, item in value.items() if item is not None}
        case list():
            return [_lower(item) for item in value]
        case _:
            return value


class Upload(msgspec.Struct, frozen=True):
    """A file, its URI (`minio://bucket/key`), and its content type."""

    file: pathlib.Path
    uri: str
    content_type: str


def upload(uploads: Sequence[Upload]) -> tuple[list[str], str]:
    """Upload files to one bucket, one after the other, and within a bounded time.

    Args:
        uploads: What to upload; the most important first. An upload that is cut off leaves nothing in the bucket.

    Returns:
        The URIs of those that were uploaded, and why the others were not; empty = all were. Outside of pods nothing is.
    """
    if not access.in_cluster():
        return [], ""
    done: list[str] = []
    until = time.monotonic() + SECONDS
    try:
        store = _open(uploads[0].uri)
        for artifact in uploads:
            _put(store, artifact, until)
            done.append(artifact.uri)
    except ImportError:
        return done, "the package obstore is not installed; install it with `pip install 'tfsteps[store]'`"
    except Exception as error:  # noqa: BLE001  the step must end with its job's result
        return done, str(error).partition("\n")[0][:_REASON_CHARACTERS]
    return done, ""


def _open(uri: str) -> Any:
    """Return the bucket of an artifact as obstore's store."""
    from obstore.store import from_url  # noqa: PLC0415  of a failed step alone

    api = Api(access.find(), patience=0, read_seconds=_REQUEST_SECONDS)
    scheme, bucket, _ = split(uri)
    endpoint = (
        next((f"{host}:{port}" for host, port in _OWN_ENDPOINTS if _resolves(host)), "") if scheme == "minio" else ""
    )
    settings = store_settings(uri, _data(api, _CONFIG_MAPS, CONFIG_MAP), endpoint)
    limit = dt.timedelta(seconds=_REQUEST_SECONDS)
    return from_url(
        f"{'gs' if scheme == 'gs' else 's3'}://{bucket}",
        config=_google(api, settings) if scheme == "gs" else _s3(api, settings),
        client_options={"timeout": limit, "connect_timeout": limit, "allow_http": settings.url.startswith("http://")},
        retry_config={
            "max_retries": 1,
            "retry_timeout": limit / 2,
        },  # a request that took its whole time is not sent again
    )


def _s3(api: Api, settings: StoreSettings) -> dict[str, str]:
    """Return obstore's configuration of a bucket of S3; what is left out the environment has."""
    path_style = settings.force_path_style is not False
    config = {
        "virtual_hosted_style_request": str(not path_style).lower(),
        "endpoint": settings.url,
        "region": settings.region,
    }
    if ref := settings.secret:
        secret = _data(api, _SECRETS, ref.secret_name)
        config["access_key_id"] = _value(ref, secret, ref.access_key_key)
        config["secret_access_key"] = _value(ref, secret, ref.secret_key_key)
    return {name: value for name, value in config.items() if value}


def _google(api: Api, settings: StoreSettings) -> dict[str, str]:
    ref = settings.secret
    return {"service_account_key": _value(ref, _data(api, _SECRETS, ref.secret_name), ref.token_key)} if ref else {}


def _data(api: Api, resource: Resource, name: str) -> Mapping[str, str]:
    """Return the data of a ConfigMap or Secret of the pod's namespace; empty where there is no such ConfigMap."""
    try:
        data: Mapping[str, str] = api.get(resource, api.access.namespace, name, once=True).get("data") or {}
    except ApiError as error:
        if error.missing and resource is _CONFIG_MAPS:
            return {}
        raise StoreError(f"{resource.kind} {name} cannot be read: {error}") from error
    return data


def _value(ref: SecretRef, secret: Mapping[str, str], key: str) -> str:
    """Return a value of a Secret. StoreError if it has none, without its content."""
    try:
        value = base64.b64decode(secret.get(key, ""), validate=True).decode()
    except (binascii.Error, ValueError):
        value = ""
    if not value:
        raise StoreError(f"Secret {ref.secret_name} has no usable value for the key {key!r}")
    return value


def _resolves(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return False
    return True


def _put(store: Any, item: Upload, until: float) -> None:
    import obstore  # noqa: PLC0415

    size = item.file.stat().st_size
    content = item.file.read_bytes() if size <= _PART_BYTES else _blocks(item.file, until)
    if time.monotonic() > until:
        raise TimeoutError(_late(item.file))
    obstore.put(
        store,
        split(item.uri)[2],
        content,
        attributes={"Content-Type": item.content_type},
        chunk_size=_PART_BYTES,
        max_concurrency=_PARTS_AT_ONCE,
    )


def _blocks(file: pathlib.Path, until: float) -> Iterator[bytes]:
    """Yield a file's content. TimeoutError once it is too late: then obstore takes back what was sent."""
    with file.open("rb") as content:
        while block := content.read(_READ_BYTES):
            if time.monotonic() > until:
                raise TimeoutError(_late(file))
            yield block


def _late(file: pathlib.Path) -> str:
    return f"the upload of {file.name} ({file.stat().st_size >> 20} MiB) would have taken more than {SECONDS:.0f} s"
