"""Train a small classifier with Keras' `fit` in one process; resume from the last epoch after a restart."""

import argparse
import os

import tensorflow as tf
from tensorflow import keras

OUTPUT = os.environ.get("TFSTEPS_OUTPUT_DIR", "output")
LOGS = os.environ.get("TFSTEPS_LOG_DIR", f"{OUTPUT}/logs")
MODEL = os.environ.get("TFSTEPS_MODEL_DIR", f"{OUTPUT}/model")
BATCH = 64
STEPS_PER_EPOCH = 20


def points():
    """Return batches of points in the plane and on which side of a circle they lie: put your data here."""

    def batch(number):
        x = tf.random.stateless_uniform([BATCH, 2], seed=[0, tf.cast(number, tf.int32)], minval=-1, maxval=1)
        return x, tf.cast(tf.norm(x, axis=1) < 0.75, tf.int32)

    return tf.data.Dataset.range(STEPS_PER_EPOCH).map(batch)


def train(epochs):
    """Train for `epochs`, including those before a restart."""
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(32, "relu"), keras.layers.Dense(2)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.05), loss, metrics=["accuracy"])
    callbacks = [
        keras.callbacks.TensorBoard(LOGS, write_graph=False),
        keras.callbacks.BackupAndRestore(f"{OUTPUT}/backup"),  # safe only for a single process
    ]
    model.fit(points(), epochs=epochs, verbose=2, callbacks=callbacks)
    model.export(MODEL, verbose=False)
    print(f"exported to {MODEL}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5, help="passes over the data")
    train(parser.parse_args().epochs)
