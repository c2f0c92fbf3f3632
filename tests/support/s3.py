"""An S3 server, for processes of this machine or for pods of its cluster."""

import contextlib

import boto3
from moto.server import ThreadedMotoServer

from tests.cluster.paths import NODE_IP

VARIABLES = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
_KEYS = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}


@contextlib.contextmanager
def served_bucket(name, address=NODE_IP):
    """Yield (bucket, host:port) of a new bucket; by default the server listens on the pods' bridge only."""
    server = ThreadedMotoServer(address, 0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        bucket = bucket_at(f"http://{address}:{port}", name)
        yield bucket, f"{address}:{port}"
        bucket.objects.delete()
    finally:
        server.stop()


def bucket_at(endpoint, name):
    """Return a new bucket of the server at an address."""
    bucket = boto3.resource("s3", endpoint_url=endpoint, **_KEYS).Bucket(name)
    bucket.create()
    return bucket
