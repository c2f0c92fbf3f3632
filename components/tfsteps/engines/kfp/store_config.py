"""Where Kubeflow Pipelines stores artifacts, and with which credentials, by the rules of its own launcher. Pure.

The ConfigMap `kfp-launcher` of the pod's namespace lists providers. Without one, `minio://` uses the installation's own
store, and `s3://` and `gs://` use the environment's settings.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

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


class _Override(StoreSettings, frozen=True, kw_only=True, rename=_squeezed):
    bucket_name: str
    key_prefix: str = ""


class _Provider(msgspec.Struct, frozen=True):
    default: StoreSettings | None = None
    overrides: list[_Override] = []


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


def settings(uri: str, config: Mapping[str, str], own_endpoint: str) -> StoreSettings:
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
        return msgspec.convert(providers.get(scheme, {}), type=_Provider)
    except (yaml_reader.YamlError, msgspec.ValidationError, AttributeError) as error:
        raise StoreError(f"`{_PROVIDERS}` of ConfigMap {CONFIG_MAP} cannot be read: {error}") from error


def _merged(default: StoreSettings, override: _Override) -> StoreSettings:
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
