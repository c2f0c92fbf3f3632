"""Train a linear model with parameter servers: ParameterServerStrategy and ClusterCoordinator, plain tf.Module, no Keras.

Tasks in TF_CONFIG: exactly one `chief` (the coordinator; without it the strategy hangs), and any number of `ps` and `worker`.
`ps` and `worker` only serve. TensorFlow gives them no end of their own: `server.join()` never returns. Here they leave when
the chief has written a marker file whose name belongs to this cluster, for OUT may be used again by another one.
Asynchronous, so the result differs a little from run to run.

Environment:
    TFSTEPS_OUTPUT_DIR  folder that all tasks share; gets ckpt/, logs/, export/1/ and the marker
    EPOCHS      number of epochs (default 3)
    STEPS       steps per epoch (default 20)
    STEP_SLEEP  seconds to wait between scheduled steps (default 0)
    RESUME      not empty: go on from the newest checkpoint in OUT/ckpt
    JOIN        not empty: ps and worker block in server.join() for ever, as most training programs do; kill them
"""

import json
import os
import time
import zlib

START = time.monotonic()

import tensorflow as tf  # noqa: E402  after START, so that the log shows what the import costs

OUT = os.environ["TFSTEPS_OUTPUT_DIR"]
EPOCHS = int(os.environ.get("EPOCHS", "3"))
STEPS = int(os.environ.get("STEPS", "20"))
STEP_SLEEP = float(os.environ.get("STEP_SLEEP", "0"))
LEARNING_RATE = 0.1
FEATURES = 8
BATCH = 32


def log(*parts):
    print(f"{time.monotonic() - START:5.1f}", *parts, flush=True)


def done_marker(cluster):
    text = json.dumps(cluster.as_dict(), sort_keys=True)
    return f"{OUT}/DONE.{zlib.crc32(text.encode()):08x}"


def serve(cluster, role, index):
    """Be a ps or a worker until the chief is done."""
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=1,
        inter_op_parallelism_threads=max(4, cluster.num_tasks("worker") + 1),  # serving needs threads of its own
    )
    server = tf.distribute.Server(cluster, job_name=role, task_index=index, config=config, protocol="grpc", start=True)
    log("serving", role, index)
    if os.environ.get("JOIN"):
        server.join()
    while not os.path.exists(done_marker(cluster)):
        time.sleep(0.2)
    log("done file seen")
    os._exit(0)  # no orderly shutdown: peers may already be gone


class Regression(tf.Module):
    def __init__(self):
        self.w = tf.Variable(tf.zeros([FEATURES, 1]), name="w")
        self.b = tf.Variable(tf.zeros([1]), name="b")

    @tf.function(input_signature=[tf.TensorSpec([None, FEATURES], tf.float32)])
    def __call__(self, x):
        return x @ self.w + self.b


def endless_batches():
    def batch(i):
        x = tf.random.stateless_uniform([BATCH, FEATURES], seed=[7, tf.cast(i, tf.int32)])
        return x, tf.reduce_sum(x, 1, keepdims=True)

    return tf.data.Dataset.range(10**9).map(batch)


def coordinate(resolver):
    """Be the chief: make the variables on the ps, schedule steps on the workers, save, export."""
    marker = done_marker(resolver.cluster_spec())
    if os.path.exists(marker):
        os.remove(marker)
    tf.random.set_seed(1)
    strategy = tf.distribute.ParameterServerStrategy(resolver)  # blocks until every ps and worker answers
    log("strategy")
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = Regression()
        step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
    log("vars on", model.w.device)
    # One data shard per ps and one for the chief: all must see the same file system.
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(model=model, step=step), f"{OUT}/ckpt", max_to_keep=2)
    if os.environ.get("RESUME") and manager.restore_or_initialize():
        log("restored step", int(step.numpy()))
    iterator = iter(coordinator.create_per_worker_dataset(endless_batches))

    @tf.function
    def train_step(iterator):
        x, y = next(iterator)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        variables = [model.w, model.b]
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(LEARNING_RATE * gradient)
        step.assign_add(1)
        return loss

    writer = tf.summary.create_file_writer(f"{OUT}/logs")
    with writer.as_default():
        for epoch in range(int(step.numpy()) // STEPS, EPOCHS):
            for _ in range(STEPS):
                remote = coordinator.schedule(train_step, args=(iterator,))  # returns at once
                time.sleep(STEP_SLEEP)
            coordinator.join()  # waits for all steps; steps of a lost worker run again on another one
            loss = coordinator.fetch(remote)
            tf.summary.scalar("loss", loss, step=int(step.numpy()))
            writer.flush()
            manager.save(checkpoint_number=int(step.numpy()))
            log(f"epoch {epoch + 1} loss {float(loss):.6f} step {int(step.numpy())}")
    tf.saved_model.save(model, f"{OUT}/export/1")
    log(f"done wsum {float(tf.reduce_sum(model.w)):.6f}")
    open(marker, "w").close()
    os._exit(0)  # an orderly exit prints screens of "failed to connect" once the servers have left


def main():
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
    if resolver.task_type in ("ps", "worker"):
        serve(resolver.cluster_spec(), resolver.task_type, resolver.task_id)
    elif resolver.task_type == "chief":
        coordinate(resolver)
    else:
        raise SystemExit(f"TF_CONFIG: task type {resolver.task_type!r}; expected chief, ps or worker")


if __name__ == "__main__":
    main()
