"""Train a Keras 3 model with `model.fit` on all workers of a job; save a checkpoint each epoch, resume after a restart.

Keras 3 does not support several workers by itself: its `fit` fails under MultiWorkerMirroredStrategy. `Distributed` and
`train` work around that with public methods only; the losses are those of one process with all the data.
"""

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


class Distributed(keras.Model):
    """Any Keras model, for `fit` and `evaluate` on several workers.

    Keras averages the results of a step along an axis that scalars do not have, so the steps return vectors.
    """

    def __init__(self, network):
        super().__init__()
        self.network = network

    def call(self, x, training=False):
        return self.network(x, training=training)

    def train_step(self, data):
        return {name: tf.reshape(value, [1]) for name, value in super().train_step(data).items()}

    def test_step(self, data):
        return {name: tf.reshape(value, [1]) for name, value in super().test_step(data).items()}


class Save(keras.callbacks.Callback):
    """Saves a checkpoint after each epoch, on every worker, because all workers take part in it; writes scalars.

    With Keras' own BackupAndRestore and ModelCheckpoint, every worker would write to the same file.
    """

    def __init__(self, manager, epoch, writer):
        super().__init__()
        self.manager, self.epoch, self.writer = manager, epoch, writer

    def on_epoch_end(self, epoch, logs=None):
        self.epoch.assign(epoch + 1)
        with self.writer.as_default():
            for name, value in logs.items():
                tf.summary.scalar(name, value, step=epoch + 1)
        self.writer.flush()
        self.manager.save(checkpoint_number=epoch + 1)
        print(f"epoch {epoch + 1}", *(f"{name} {value:.4f}" for name, value in logs.items()), flush=True)


def is_chief():
    """Return whether this process writes checkpoints, event files and the model: the chief, otherwise worker 0."""
    config = json.loads(os.environ.get("TF_CONFIG", "{}"))
    task = config.get("task", {"type": "worker", "index": 0})
    return task["type"] == "chief" or ("chief" not in config.get("cluster", {}) and task["index"] == 0)


def points(seed, first=0):
    """Return endless batches of points in the plane and on which side of a circle they lie: put your data here."""

    def batch(number):
        x = tf.random.stateless_uniform([BATCH, 2], seed=[seed, tf.cast(number, tf.int32)], minval=-1, maxval=1)
        return x, tf.cast(tf.norm(x, axis=1) < 0.75, tf.int32)

    return tf.data.Dataset.range(first, 2**31 - 1).map(batch)


def train(epochs):
    """Train for `epochs`, including those before a restart."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before any other TensorFlow call; waits for every worker
    with strategy.scope():
        network = keras.Sequential([keras.Input([2]), keras.layers.Dense(32, "relu"), keras.layers.Dense(2)])
        optimizer = keras.optimizers.Adam(0.02)
        optimizer.build(network.trainable_variables)
        epoch = tf.Variable(0, dtype=tf.int64, trainable=False)
    model = Distributed(network)  # outside the scope; inside it `fit` tries to average the first batch and fails

    chief = is_chief()
    checkpoint = tf.train.Checkpoint(network=network, optimizer=optimizer, epoch=epoch)
    # Every worker has to save, but only the chief's checkpoint is kept; all workers restore it.
    manager = tf.train.CheckpointManager(checkpoint, CHECKPOINTS if chief else tempfile.mkdtemp(), max_to_keep=2)
    if latest := tf.train.latest_checkpoint(CHECKPOINTS):
        checkpoint.restore(latest)
        print(f"resumes after epoch {int(epoch.numpy())}", flush=True)

    first = int(epoch.numpy())
    seen = first * STEPS_PER_EPOCH
    data = strategy.distribute_datasets_from_function(lambda context: points(context.input_pipeline_id, seen))
    validation = strategy.distribute_datasets_from_function(lambda context: points(1000 + context.input_pipeline_id))
    writer = tf.summary.create_file_writer(LOGS) if chief else tf.summary.create_noop_writer()
    with strategy.scope():
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer, loss, metrics=["accuracy"])
        model.fit(
            data,
            initial_epoch=first,
            epochs=epochs,
            steps_per_epoch=STEPS_PER_EPOCH,
            validation_data=validation,
            validation_steps=5,
            shuffle=False,
            verbose=0,
            callbacks=[Save(manager, epoch, writer)],
        )
    if chief:
        network.export(MODEL, verbose=False)
        print(f"exported to {MODEL}", flush=True)
    leave(strategy)


def leave(strategy):
    """Wait for every worker, then exit at once: a normal exit is slow after another worker has exited."""

    def barrier():
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
