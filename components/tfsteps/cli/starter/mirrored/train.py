"""Train a small classifier on all workers of a job; save a checkpoint each epoch and resume from it after a restart."""

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


def is_chief() -> bool:
    """Return whether this process writes checkpoints, event files and the model: the chief, otherwise worker 0."""
    config = json.loads(os.environ.get("TF_CONFIG", "{}"))
    task = config.get("task", {"type": "worker", "index": 0})
    return task["type"] == "chief" or ("chief" not in config.get("cluster", {}) and task["index"] == 0)


def points(pipeline: int, first: int, last: int) -> tf.data.Dataset:
    """Return batches of points in the plane and on which side of a circle they lie: put your data here.

    A batch depends on the pipeline and its number alone, so that a resumed run sees the same data.
    """

    def batch(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        x = tf.random.stateless_uniform([BATCH, 2], seed=[pipeline, tf.cast(number, tf.int32)], minval=-1, maxval=1)
        return x, tf.cast(tf.norm(x, axis=1) < 0.75, tf.int32)

    return tf.data.Dataset.range(first, last).map(batch)


def train(epochs: int) -> None:
    """Train for `epochs`, including those before a restart."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before any other TensorFlow call; waits for every worker
    with strategy.scope():
        model = keras.Sequential([keras.Input([2]), keras.layers.Dense(32, "relu"), keras.layers.Dense(2)])
        optimizer = keras.optimizers.Adam(0.02)
        optimizer.build(model.trainable_variables)
        step = tf.Variable(0, dtype=tf.int64, trainable=False)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)

    def train_step(iterator: tf.data.Iterator) -> tuple[tf.Tensor, tf.Tensor]:
        """Take one step on all workers. Returns the mean loss and accuracy."""

        def on_each(batch: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
            x, y = batch
            with tf.GradientTape() as tape:
                logits = model(x, training=True)
                loss = tf.reduce_mean(loss_of(y, logits)) / strategy.num_replicas_in_sync
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))  # sums over the workers
            right = tf.reduce_mean(tf.cast(tf.argmax(logits, 1, tf.int32) == y, tf.float32))
            return loss, right / strategy.num_replicas_in_sync

        losses, rights = strategy.run(on_each, args=(next(iterator),))
        return strategy.reduce("SUM", losses, axis=None), strategy.reduce("SUM", rights, axis=None)

    compiled_step = tf.function(train_step)
    chief = is_chief()
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, step=step)
    # Every worker has to save, but only the chief's checkpoint is kept; all workers restore it.
    scratch = tempfile.TemporaryDirectory()
    manager = tf.train.CheckpointManager(checkpoint, CHECKPOINTS if chief else scratch.name, max_to_keep=2)
    latest = tf.train.latest_checkpoint(CHECKPOINTS)
    if latest:
        checkpoint.restore(latest)
        print(f"resumes from step {int(step.numpy())}", flush=True)

    first, last = int(step.numpy()), epochs * STEPS_PER_EPOCH
    iterator = iter(
        strategy.distribute_datasets_from_function(lambda context: points(context.input_pipeline_id, first, last))
    )
    writer = tf.summary.create_file_writer(LOGS) if chief else tf.summary.create_noop_writer()
    with writer.as_default():
        for number in range(first + 1, last + 1):
            loss, accuracy = compiled_step(iterator)
            step.assign(number)
            tf.summary.scalar("loss", loss, step=number)
            tf.summary.scalar("accuracy", accuracy, step=number)
            if number % STEPS_PER_EPOCH == 0:
                writer.flush()
                manager.save(checkpoint_number=number)
                print(f"step {number} loss {float(loss):.4f} accuracy {float(accuracy):.3f}", flush=True)
    if chief:
        model.export(MODEL, verbose=False)
        print(f"exported to {MODEL}", flush=True)
    scratch.cleanup()
    leave(strategy)


def leave(strategy: tf.distribute.Strategy) -> None:
    """Wait for every worker, then exit at once: a normal exit is slow after another worker has exited."""

    def barrier() -> tf.Tensor:
        return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.ones([])))

    try:
        tf.function(barrier)()
    except tf.errors.OpError:
        print("other workers have already exited", flush=True)  # their work is saved
    time.sleep(0.5)  # other workers may still be reading the last message
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5, help="passes of 20 steps")
    train(parser.parse_args().epochs)
