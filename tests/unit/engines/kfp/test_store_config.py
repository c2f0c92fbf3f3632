"""How a bucket of Kubeflow Pipelines is reached: the rules of its own launcher for the ConfigMap `kfp-launcher`."""

import pytest

from tfsteps.engines.kfp.object_store import SecretRef, StoreError, split, store_settings

URI = "minio://mlpipeline/v2/artifacts/p/run/train/salt/report"
OWN = SecretRef(secret_name="mlpipeline-minio-artifact", access_key_key="accesskey", secret_key_key="secretkey")
DEFAULT = """
s3:
  default:
    endpoint: store.example:9000
    region: eu-central-1
    disableSSL: true
    forcePathStyle: false
    credentials:
      fromEnv: false
      secretRef: {secretName: keys, accessKeyKey: a, secretKeyKey: s}
"""
OVERRIDES = (
    DEFAULT
    + """
  Overrides:
  - {bucketName: other, keyPrefix: v2, credentials: {fromEnv: true}}
  - {bucketName: runs, keyPrefix: v2/team, endpoint: team.example, disableSSL: false, credentials: {fromEnv: true}}
  - {bucketName: runs, keyPrefix: v2, credentials: {secretRef: {secretName: second, accessKeyKey: a, secretKeyKey: s}}}
"""
)


@pytest.mark.parametrize("config", [{}, {"providers": ""}, {"providers": "s3: {}"}, {"providers": "minio:"}])
def test_without_a_provider_minio_is_the_store_of_the_installation(config):
    settings = store_settings(URI, config, "minio-service.kubeflow:9000")
    assert (settings.url, settings.region, settings.secret) == ("http://minio-service.kubeflow:9000", "minio", OWN)


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_without_a_provider_a_cloud_bucket_uses_credentials_of_the_environment(scheme):
    settings = store_settings(f"{scheme}://runs/a", {}, "")
    assert (settings.url, settings.region, settings.secret) == ("", "", None)


def test_the_default_of_a_provider():
    settings = store_settings("s3://runs/v2/a", {"providers": DEFAULT}, "")
    assert (settings.url, settings.region, settings.force_path_style) == (
        "http://store.example:9000",
        "eu-central-1",
        False,
    )
    assert settings.secret == SecretRef(secret_name="keys", access_key_key="a", secret_key_key="s")


@pytest.mark.parametrize(
    ("uri", "url", "secret"),
    [
        ("s3://runs/v2/team/a", "https://team.example", None),
        ("s3://runs/v2/a", "http://store.example:9000", "second"),
        ("s3://runs/v1/a", "http://store.example:9000", "keys"),
        ("s3://other/v2/a", "http://store.example:9000", None),
    ],
)
def test_the_first_override_that_fits_counts(uri, url, secret):
    settings = store_settings(uri, {"providers": OVERRIDES}, "")
    assert settings.url == url
    assert (settings.secret and settings.secret.secret_name) == secret
    assert settings.region == "eu-central-1"


@pytest.mark.parametrize("endpoint", ["s3.amazonaws.com", "https://s3.amazonaws.com", "S3.amazonaws.com/"])
def test_amazon_is_reached_by_its_region(endpoint):
    text = DEFAULT.replace("store.example:9000", endpoint)
    assert store_settings("s3://runs/a", {"providers": text}, "").url == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "cannot be read"),
        ("just text", "cannot be read"),
        ("s3: {default: {disableSSL: 3}}", "cannot be read"),
        ("s3: {default: {endpoint: a}}", "no credentials for s3://runs"),
        ("s3: {default: {credentials: {fromEnv: false}}}", "no credentials"),
        ("s3: {overrides: [{bucketName: runs, credentials: {fromEnv: true}}]}", "no default for s3"),
        (DEFAULT + "  overrides: [{bucketName: runs}]", "no credentials"),
    ],
)
def test_a_config_map_without_usable_content(text, message):
    with pytest.raises(StoreError, match=message):
        store_settings("s3://runs/v2/a", {"providers": text}, "")


def test_what_is_no_address_in_an_object_store():
    assert split(URI) == ("minio", "mlpipeline", "v2/artifacts/p/run/train/salt/report")
    for uri in ("", "/tmp/report", "oci://registry/a", "s3://bucket", "s3://bucket/"):
        assert split(uri) == ("", "", "")
