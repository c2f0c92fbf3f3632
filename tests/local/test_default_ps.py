"""A program of TensorFlow 1 with the default parameter server of TfJob v1alpha1, in real processes of both."""

import os
import subprocess
import sys

import pytest

from tests.controllers import tfjob_replicas
from tests.controllers.tfjob_v1alpha1 import _PROGRAM as SERVER
from tfsteps import spec
from tfsteps.platforms.tfjob_v1alpha1.tfjob import KINDS
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.systems import registry
from tfsteps.systems.local.ports import free_ports

PROGRAM = """
import json, os
import tensorflow as tf
config = json.loads(os.environ["TF_CONFIG"])
task, cluster = config["task"], tf.train.ClusterSpec(config["cluster"])
v1 = tf.compat.v1
v1.disable_eager_execution()
server = tf.distribute.Server(cluster, job_name=task["type"], task_index=task["index"], protocol="grpc")
with tf.device("/job:ps/task:0"):
    total = v1.get_variable("total", shape=[], initializer=v1.zeros_initializer(), use_resource=False)
with tf.device(f"/job:{task['type']}/task:0"):
    two = tf.constant(2.0)
with tf.device("/job:ps/task:0"):
    step = total.assign_add(two)
with v1.Session(server.target, config=v1.ConfigProto(operation_timeout_in_ms=120_000)) as session:
    session.run(v1.global_variables_initializer())
    print("total", session.run(step), flush=True)
os._exit(0)  # the servers do not end
"""


def started(manifest, task, hosts):
    """Start the program of a task as the operator would, at addresses of this machine."""
    (container,) = tfjob_replicas.batch_job(manifest, task)["spec"]["template"]["spec"]["containers"]
    texts = container.get("command") or []
    env = {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}
    for host, address in hosts.items():
        texts = [text.replace(host, address) for text in texts]
        env = {name: value.replace(host, address) for name, value in env.items()}
    texts = [str(SERVER) if text.endswith("/grpc_tensorflow_server.py") else text for text in texts]
    texts = [sys.executable if text == "python" else text for text in texts]
    env |= {"TFSTEPS_INDEX": str(task.index), "TFSTEPS_TASK_INDEX": str(task.index)}  # of the pod's label
    return subprocess.Popen(
        texts, env={**os.environ, **env, "CUDA_VISIBLE_DEVICES": ""}, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.tensorflow
def test_a_program_of_tensorflow_1_uses_the_operators_parameter_server():
    fields = {"name": "old", "image": "i:1", "command": ["python", "-c", PROGRAM], "roles": {"chief": {}, "ps": {}}}
    fields["strategy"] = "between_graph"
    options = {"systems": {"tfjob-v1alpha1": {"default_ps": True, "tf_config": "operator"}}}
    job = spec.from_plain({**fields, **options}, "test", registry.options())
    paths = OutputPaths(output="/o", model="/o/m", logs="/o/l", base_dir=None)
    manifest = KINDS["tensorflow.org"].render(job, Identity(run="r", task="t"), paths, "ns").manifest
    manifest["metadata"]["uid"] = "u"
    manifest["spec"] = tfjob_replicas.defaulted(manifest["spec"], "none")
    tasks = tfjob_replicas.tasks(manifest)
    ports = free_ports(len(tasks))
    hosts = {
        f"{tfjob_replicas.name_of(manifest, task)}:2222": f"127.0.0.1:{port}"
        for task, port in zip(tasks, ports, strict=True)
    }
    master, server = [started(manifest, task, hosts) for task in tasks]
    try:
        output, _ = master.communicate(timeout=120)
        assert (master.returncode, output) == (0, "total 2.0\n")
    finally:
        for process in (master, server):
            process.kill()
            process.wait()
            process.stdout.close()
