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

from tfsteps.engines.kfp.store_config import CONFIG_MAP, SecretRef, StoreError, StoreSettings, settings, split
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
    how = settings(uri, _data(api, _CONFIG_MAPS, CONFIG_MAP), endpoint)
    limit = dt.timedelta(seconds=_REQUEST_SECONDS)
    return from_url(
        f"{'gs' if scheme == 'gs' else 's3'}://{bucket}",
        config=_google(api, how) if scheme == "gs" else _s3(api, how),
        client_options={"timeout": limit, "connect_timeout": limit, "allow_http": how.url.startswith("http://")},
        retry_config={
            "max_retries": 1,
            "retry_timeout": limit / 2,
        },  # a request that took its whole time is not sent again
    )


def _s3(api: Api, how: StoreSettings) -> dict[str, str]:
    """Return obstore's configuration of a bucket of S3; what is left out the environment has."""
    path_style = how.force_path_style is not False
    config = {"virtual_hosted_style_request": str(not path_style).lower(), "endpoint": how.url, "region": how.region}
    if ref := how.secret:
        secret = _data(api, _SECRETS, ref.secret_name)
        config["access_key_id"] = _value(ref, secret, ref.access_key_key)
        config["secret_access_key"] = _value(ref, secret, ref.secret_key_key)
    return {name: value for name, value in config.items() if value}


def _google(api: Api, how: StoreSettings) -> dict[str, str]:
    ref = how.secret
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
