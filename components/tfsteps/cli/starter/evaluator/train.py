"""Train a small classifier on all workers of a job; the evaluator scores each checkpoint."""

import argparse
import json
import os
import sys
import tempfile
import time

import tensorflow as tf
from tensorflow import keras

OUTPUT = os.environ.get("TFSTEPS_OUTPUT_DIR", "output")
LOGS = os.environ.get("TFSTEPS_LOG_DIR", f"{OUTPUT}/logs")
MODEL = os.environ.get("TFSTEPS_MODEL_DIR", f"{OUTPUT}/model")
CHECKPOINTS = f"{OUTPUT}/checkpoints"
STEPS_PER_EPOCH = 20
BATCH = 64
IDLE_SECONDS = 300  # the evaluator exits after this time without a new checkpoint


def task():
    """Return this process's type and index in the job; without TF_CONFIG it is the only worker."""
    task_config = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {"type": "worker", "index": 0})
    return task_config["type"], task_config["index"]


def build():
    """Return the model and the number of its last step; called by the workers and by the evaluator."""
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(32, "relu"), keras.layers.Dense(2)])
    return model, tf.Variable(0, dtype=tf.int64, trainable=False)


def points(seed, first, last):
    """Return batches of points in the plane and on which side of a circle they lie: put your data here."""

    def batch(number):
        x = tf.random.stateless_uniform([BATCH, 2], seed=[seed, tf.cast(number, tf.int32)], minval=-1, maxval=1)
        return x, tf.cast(tf.norm(x, axis=1) < 0.75, tf.int32)

    return tf.data.Dataset.range(first, last).map(batch)


def train(last):
    """Train until step `last`, on all workers."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before any other TensorFlow call; waits for every worker
    with strategy.scope():
        model, step = build()
        optimizer = keras.optimizers.Adam(0.02)
        optimizer.build(model.trainable_variables)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)

    def on_each(batch):
        x, y = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(loss_of(y, model(x, training=True))) / strategy.num_replicas_in_sync
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))  # sums over the workers
        return loss

    @tf.function
    def train_step(iterator):
        return strategy.reduce("SUM", strategy.run(on_each, args=(next(iterator),)), axis=None)

    chief = task()[0] == "chief" or task() == ("worker", 0)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, step=step)
    # Every worker has to save, but only the chief's checkpoint is kept; all workers restore it.
    scratch = tempfile.TemporaryDirectory()
    manager = tf.train.CheckpointManager(checkpoint, CHECKPOINTS if chief else scratch.name, max_to_keep=5)
    if latest := tf.train.latest_checkpoint(CHECKPOINTS):
        checkpoint.restore(latest)
        print(f"resumes from step {int(step.numpy())}", flush=True)

    first = int(step.numpy())
    data = strategy.distribute_datasets_from_function(lambda context: points(context.input_pipeline_id, first, last))
    iterator = iter(data)
    writer = tf.summary.create_file_writer(f"{LOGS}/train") if chief else tf.summary.create_noop_writer()
    with writer.as_default():
        for number in range(first + 1, last + 1):
            loss = train_step(iterator)
            step.assign(number)
            tf.summary.scalar("loss", loss, step=number)
            if number % STEPS_PER_EPOCH == 0:
                writer.flush()
                manager.save(checkpoint_number=number)
                print(f"step {number} loss {float(loss):.4f}", flush=True)
    if chief:
        model.export(MODEL, verbose=False)
        print(f"exported to {MODEL}", flush=True)
    scratch.cleanup()
    time.sleep(0.5)  # other workers may still be reading the last message
    sys.stdout.flush()
    os._exit(0)  # a normal exit is slow after another worker has exited


def evaluate(last):
    """Score each new checkpoint up to step `last`, without a strategy: the evaluator is not in TF_CONFIG's cluster."""
    model, step = build()
    checkpoint = tf.train.Checkpoint(model=model, step=step)
    x, y = next(iter(points(1000, 0, 1)))
    with tf.summary.create_file_writer(f"{LOGS}/eval").as_default() as writer:
        for path in tf.train.checkpoints_iterator(CHECKPOINTS, timeout=IDLE_SECONDS):
            try:
                checkpoint.restore(path).expect_partial()  # the optimizer is not needed
            except tf.errors.OpError:
                continue  # it was deleted after a newer checkpoint was saved
            accuracy = tf.reduce_mean(tf.cast(tf.argmax(model(x), 1, tf.int32) == y, tf.float32))
            tf.summary.scalar("accuracy", accuracy, step=step)
            writer.flush()
            print(f"evaluated step {int(step.numpy())}: accuracy {float(accuracy):.3f}", flush=True)
            if int(step.numpy()) >= last:
                return
    sys.exit(f"no new checkpoint for {IDLE_SECONDS} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5, help="passes of 20 steps")
    steps = parser.parse_args().epochs * STEPS_PER_EPOCH
    evaluate(steps) if task()[0] == "evaluator" else train(steps)
