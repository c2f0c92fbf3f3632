"""Takes more and more memory through TensorFlow, for ever."""

import tensorflow as tf

kept = []
while True:
    kept.append(tf.random.uniform([2**20]))
