"""Call Keras 3's `fit` under a strategy: MWMS (MultiWorkerMirroredStrategy), or parameter servers if there are any."""

import json
import os

import keras
import tensorflow as tf

if "ps" in json.loads(os.environ["TF_CONFIG"])["cluster"]:
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type != "chief":
        cluster, role, index = resolver.cluster_spec(), resolver.task_type, resolver.task_id
        tf.distribute.Server(cluster, job_name=role, task_index=index, protocol="grpc").join()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
else:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(2)])
    model.compile("sgd", "mse")
x = tf.random.stateless_uniform([128, 2], seed=[1, 2])
model.fit(tf.data.Dataset.from_tensor_slices((x, x)).repeat().batch(64), steps_per_epoch=2, verbose=2)
print("fit works", flush=True)
