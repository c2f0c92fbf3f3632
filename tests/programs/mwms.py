"""Train a linear model with MultiWorkerMirroredStrategy: a plain tf.Module in a custom loop, no Keras.

One process per task; the cluster (`chief` and/or `worker` tasks) comes from TF_CONFIG. Without TF_CONFIG it trains alone.
The result depends only on the number of replicas, the steps and the TensorFlow version: two replicas, three epochs
of 20 steps give wsum 6.175067902 (TensorFlow 2.21, CPU), however often the job was interrupted and resumed.

Environment:
    TFSTEPS_OUTPUT_DIR  folder that all tasks share; gets ckpt/, logs/ and export/1/
    EPOCHS      number of epochs (default 3)
    STEPS       steps per epoch (default 20)
    STEP_SLEEP  seconds to wait after each step, to leave room for fault injection (default 0)
    RESUME      not empty: go on from the newest checkpoint in OUT/ckpt
    SIG         "dfl": let SIGTERM end the process; otherwise TensorFlow swallows it (see tensorflow.md)
    FAST_EXIT   "0": leave through the interpreter's normal exit (default "1": meet at a barrier, then os._exit)
"""

import json
import os
import signal
import sys
import tempfile
import time

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


def is_chief():
    """Tell whether this task saves and exports: the `chief`, or worker 0 of a cluster without one."""
    config = json.loads(os.environ.get("TF_CONFIG", "{}"))
    task = config.get("task", {"type": "worker", "index": 0})
    if "chief" in config.get("cluster", {}):
        return task["type"] == "chief"
    return task["type"] == "worker" and int(task["index"]) == 0


class Regression(tf.Module):
    """y = x @ w + b. With mean aggregation, `assign_sub` in replica context averages over all replicas."""

    def __init__(self):
        mean = tf.VariableAggregation.MEAN
        self.w = tf.Variable(tf.zeros([FEATURES, 1]), name="w", aggregation=mean)
        self.b = tf.Variable(tf.zeros([1]), name="b", aggregation=mean)

    @tf.function(input_signature=[tf.TensorSpec([None, FEATURES], tf.float32)])
    def __call__(self, x):
        return x @ self.w + self.b

    def loss(self, x, y):
        return tf.reduce_mean((self(x) - y) ** 2)


def batches(first, last):
    """Return a dataset function whose batch i depends on (pipeline, i) alone, so that a resumed run sees the same data."""

    def per_pipeline(context):
        def batch(i):
            x = tf.random.stateless_uniform([BATCH, FEATURES], seed=[context.input_pipeline_id, tf.cast(i, tf.int32)])
            return x, tf.reduce_sum(x, 1, keepdims=True)

        return tf.data.Dataset.range(first, last).map(batch)

    return per_pipeline


def make_train_step(strategy, model):
    @tf.function
    def train_step(iterator):
        def in_replica(batch):
            x, y = batch
            with tf.GradientTape() as tape:
                loss = model.loss(x, y)
            variables = [model.w, model.b]
            for variable, gradient in zip(variables, tape.gradient(loss, variables)):
                variable.assign_sub(LEARNING_RATE * gradient)
            return loss

        per_replica = strategy.run(in_replica, args=(next(iterator),))
        return strategy.reduce("MEAN", per_replica, axis=None)

    return train_step


def leave_together(strategy, writer):
    """Meet every peer once more, then end at once.

    The interpreter's own way out takes 0.8 to 10 s and is noisy when the leader goes first. A peer may still leave a few
    milliseconds early and break the barrier; nothing is lost then, for all work is saved.
    """

    @tf.function
    def barrier():
        return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.ones([])))

    try:
        barrier()
    except tf.errors.OpError as error:
        log("final barrier:", type(error).__name__)
    writer.close()
    sys.stdout.flush()
    os._exit(0)


def main():
    log("imported")
    chief = is_chief()
    tf.config.threading.set_intra_op_parallelism_threads(1)  # sums are only repeatable with a fixed thread count
    tf.config.threading.set_inter_op_parallelism_threads(2)
    tf.random.set_seed(1)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before any other op; blocks until every peer is up
    log(f"strategy replicas={strategy.num_replicas_in_sync} chief={chief}")
    if os.environ.get("SIG") == "dfl":
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # undo what building the strategy did to SIGTERM

    with strategy.scope():
        model = Regression()
        step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
    checkpoint = tf.train.Checkpoint(model=model, step=step)
    # Every task must save, but only the chief's copy is kept; all restore from the chief's.
    folder = f"{OUT}/ckpt" if chief else tempfile.mkdtemp()
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
    latest = tf.train.latest_checkpoint(f"{OUT}/ckpt") if os.environ.get("RESUME") else None
    if latest:
        checkpoint.restore(latest).assert_consumed()
        log("restored", latest, "step", int(step.numpy()))

    first = int(step.numpy())
    iterator = iter(strategy.distribute_datasets_from_function(batches(first, EPOCHS * STEPS)))
    train_step = make_train_step(strategy, model)
    writer = tf.summary.create_file_writer(f"{OUT}/logs") if chief else tf.summary.create_noop_writer()
    with writer.as_default():
        for epoch in range(first // STEPS, EPOCHS):
            for _ in range(STEPS):
                loss = train_step(iterator)
                step.assign_add(1)
                time.sleep(STEP_SLEEP)
            tf.summary.scalar("loss", loss, step=int(step.numpy()))
            writer.flush()
            manager.save(checkpoint_number=int(step.numpy()))
            log(f"epoch {epoch + 1} loss {float(loss):.6f}")
    if chief:
        tf.saved_model.save(model, f"{OUT}/export/1")
    log(f"done wsum {float(tf.reduce_sum(model.w)):.9f}")
    if os.environ.get("FAST_EXIT", "1") == "1":
        leave_together(strategy, writer)


if __name__ == "__main__":
    main()
