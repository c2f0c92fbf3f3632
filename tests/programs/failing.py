"""Fails the way that its argument names, as TensorFlow programs do; then a thread goes on to print numbers."""

import atexit
import sys

import numpy as np
import tensorflow as tf


@tf.function
def multiply(x):
    return tf.matmul(x, tf.ones([3, 4]))


def fit():
    model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(2)])
    model.compile(loss="sparse_categorical_crossentropy", optimizer="adam")
    model.fit(np.zeros([64, 4]), np.arange(64), verbose=2)  # of two classes


atexit.register(lambda: print("\n".join(["0.1 0.2 0.3 0.4"] * 40)))
if sys.argv[1] == "function":
    multiply(tf.ones([2, 5]))
else:
    fit()
