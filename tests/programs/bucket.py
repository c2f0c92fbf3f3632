"""A trainer whose model and event files go to a bucket, by boto3: TensorFlow's own wheel has no file system for s3://.

Environment: TFSTEPS_MODEL_DIR, TFSTEPS_LOG_DIR, both s3://bucket/key; AWS_ENDPOINT_URL and credentials as boto3 reads them.
"""

import os
import tempfile

import boto3

from tests.support.event_writer import ScalarWriter


def upload(uri, data):
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    boto3.client("s3").put_object(Bucket=bucket, Key=key, Body=data)


with tempfile.TemporaryDirectory() as folder:
    with ScalarWriter(folder) as writer:
        for step in range(3):
            writer.scalar("loss", 1.0 / (step + 1), step)
    upload(f"{os.environ['TFSTEPS_LOG_DIR']}/train/{writer.path.name}", writer.path.read_bytes())
upload(f"{os.environ['TFSTEPS_MODEL_DIR']}/saved_model.pb", b"a model")
