"""An S3 server that pods of this machine's cluster can reach."""

import contextlib

import boto3
from moto.server import ThreadedMotoServer

from tests.cluster.paths import NODE_IP

KEYS = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}


@contextlib.contextmanager
def served_bucket(name):
    """Yield (bucket, host:port) of a new bucket; the server listens on the pods' bridge only."""
    server = ThreadedMotoServer(NODE_IP, 0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        bucket = boto3.resource("s3", endpoint_url=f"http://{NODE_IP}:{port}", **KEYS).Bucket(name)
        bucket.create()
        yield bucket, f"{NODE_IP}:{port}"
        bucket.objects.delete()
    finally:
        server.stop()
