"""The program of default parameter servers, for TensorFlow 2: the operator's own is TensorFlow 1's."""

import argparse

import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--cluster_spec", help="JOB|host:port;host:port,JOB|...")
parser.add_argument("--job_name")
parser.add_argument("--task_id", type=int)
args = parser.parse_args()
cluster = {job: hosts.split(";") for job, _, hosts in (item.partition("|") for item in args.cluster_spec.split(","))}
server = tf.distribute.Server(cluster, job_name=args.job_name, task_index=args.task_id, protocol="grpc")
print("parameter server", args.task_id, "listens", flush=True)
server.join()
