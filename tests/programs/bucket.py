"""A trainer whose model and event files go to a bucket: they are written here, and a client uploads them.

Without TensorFlow, whose import takes longer than all else here: its event files are read by tests of other jobs.

Environment: TFSTEPS_MODEL_DIR, TFSTEPS_LOG_DIR, both s3://bucket/key or gs://bucket/key; addresses and credentials as the
clients read them. Argument: the number of steps; 0 = nothing is written.
"""

import os
import sys
import tempfile

import boto3
import gcsfs

from tests.support.event_writer import ScalarWriter


def upload(uri, data):
    scheme, _, path = uri.partition("://")
    if scheme == "gs":
        gcsfs.GCSFileSystem().pipe_file(path, data)
    else:
        bucket, _, key = path.partition("/")
        boto3.client("s3", endpoint_url=os.environ["S3_ENDPOINT"]).put_object(Bucket=bucket, Key=key, Body=data)


if steps := int(sys.argv[1]):
    with tempfile.TemporaryDirectory() as folder:
        with ScalarWriter(folder) as writer:
            for step in range(steps):
                writer.scalar("loss", 1.0 / (step + 1), step)
        upload(f"{os.environ['TFSTEPS_LOG_DIR']}/train/{writer.path.name}", writer.path.read_bytes())
    upload(f"{os.environ['TFSTEPS_MODEL_DIR']}/saved_model.pb", b"a model")
