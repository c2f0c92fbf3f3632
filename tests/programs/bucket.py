"""A trainer whose model and event files go to a bucket: TensorFlow writes them here, and a client uploads them.

Environment: TFSTEPS_MODEL_DIR, TFSTEPS_LOG_DIR, both s3://bucket/key or gs://bucket/key; addresses and credentials as the
clients read them. Argument: the number of steps; 0 = nothing is written.
"""

import os
import pathlib
import sys
import tempfile

import boto3
import gcsfs
import tensorflow as tf


def upload(uri, data):
    scheme, _, path = uri.partition("://")
    if scheme == "gs":
        gcsfs.GCSFileSystem().pipe_file(path, data)
    else:
        bucket, _, key = path.partition("/")
        boto3.client("s3", endpoint_url=os.environ["S3_ENDPOINT"]).put_object(Bucket=bucket, Key=key, Body=data)


if steps := int(sys.argv[1]):
    with tempfile.TemporaryDirectory() as folder:
        with tf.summary.create_file_writer(folder).as_default():
            for step in range(steps):
                tf.summary.scalar("loss", 1.0 / (step + 1), step=step)
        (written,) = pathlib.Path(folder).iterdir()
        upload(f"{os.environ['TFSTEPS_LOG_DIR']}/train/{written.name}", written.read_bytes())
    upload(f"{os.environ['TFSTEPS_MODEL_DIR']}/saved_model.pb", b"a model")
