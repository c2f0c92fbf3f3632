"""Train a small classifier with the TensorFlow 1 API, `tensorflow.compat.v1`; resume after a restart."""

import argparse
import functools
import json
import os

import tensorflow.compat.v1 as tf
from tensorflow.python.training import session_manager

OUTPUT = os.environ.get("TFSTEPS_OUTPUT_DIR", "output")
LOGS = os.environ.get("TFSTEPS_LOG_DIR", f"{OUTPUT}/checkpoints")
MODEL = os.environ.get("TFSTEPS_MODEL_DIR", f"{OUTPUT}/model")
BATCH = 64
STEPS_PER_CHECKPOINT = 50

tf.logging.set_verbosity(tf.logging.ERROR)  # each name of TensorFlow 1 prints a deprecation warning

# By default workers check only every 30 s whether worker 0 has initialized the variables.
session_manager.SessionManager.__init__ = functools.partialmethod(
    session_manager.SessionManager.__init__, recovery_wait_secs=1
)


def points(seed):
    """Return a batch of points in the plane and on which side of a circle they lie: put your data here."""
    x = tf.random.uniform([BATCH, 2], minval=-1, maxval=1, seed=seed)
    return x, tf.cast(tf.norm(x, axis=1) < 0.75, tf.int32)


def classify(x):
    """Return logits for points, by two layers."""
    with tf.variable_scope("classifier", reuse=tf.AUTO_REUSE):
        hidden = tf.nn.relu(x @ tf.get_variable("w1", [2, 32]) + tf.get_variable("b1", [32]))
        return hidden @ tf.get_variable("w2", [32, 2]) + tf.get_variable("b2", [2])


def work(server, cluster, index, steps, config):
    """Run a worker until all workers together have done `steps`; worker 0 also saves and writes event files."""
    worker = f"/job:worker/task:{index}"
    with tf.device(tf.train.replica_device_setter(worker_device=worker, cluster=cluster)):
        x, y = points(index)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=classify(x)))
        step = tf.train.get_or_create_global_step()
        train = tf.train.AdamOptimizer(0.02).minimize(loss, global_step=step)
        tf.summary.scalar("loss", loss)
    leads = index == 0
    with tf.train.MonitoredTrainingSession(
        master=server.target,
        is_chief=leads,
        checkpoint_dir=LOGS if leads else None,
        hooks=[tf.train.StopAtStepHook(last_step=steps)],
        save_checkpoint_steps=STEPS_PER_CHECKPOINT,
        save_summaries_steps=10,
        config=config,
    ) as session:
        while not session.should_stop():
            _, number, value = session.run([train, step, loss])
            if number % 20 < 2:
                print(f"step {number} loss {value:.4f}", flush=True)
    if leads:
        export()


def export():
    """Write the model of the last checkpoint, in a graph without the cluster's devices."""
    if tf.gfile.Exists(MODEL):  # written before a restart
        tf.gfile.DeleteRecursively(MODEL)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 2])
        logits = classify(x)
        tf.train.Saver().restore(session, tf.train.latest_checkpoint(LOGS))
        tf.saved_model.simple_save(session, MODEL, {"x": x}, {"logits": logits})
    print(f"exported to {MODEL}", flush=True)


def main(steps):
    """Train as a worker; as a ps serve until the job ends."""
    tf.disable_eager_execution()
    tf_config = json.loads(os.environ["TF_CONFIG"])
    role, index = tf_config["task"]["type"], tf_config["task"]["index"]
    cluster = tf.train.ClusterSpec(tf_config["cluster"])
    # A worker waits only for the ps and itself, so that it can rejoin after a restart.
    config = tf.ConfigProto(device_filters=["/job:ps", f"/job:{role}/task:{index}"])
    server = tf.train.Server(cluster, job_name=role, task_index=index, config=config)
    if role == "ps":
        print(f"serves as ps {index}", flush=True)
        server.join()
    work(server, cluster, index, steps, config)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200, help="steps of all workers together")
    main(parser.parse_args().steps)
