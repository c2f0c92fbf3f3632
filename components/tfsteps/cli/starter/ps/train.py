"""Train a small classifier with parameter servers; save a checkpoint each epoch and resume from it after a restart.

Keras 3 does not support ParameterServerStrategy, so the model is a `tf.Module`. Workers are not synchronized, so
results differ a little from run to run.
"""

import argparse
import os

import tensorflow as tf

OUTPUT = os.environ.get("TFSTEPS_OUTPUT_DIR", "output")
LOGS = os.environ.get("TFSTEPS_LOG_DIR", f"{OUTPUT}/logs")
MODEL = os.environ.get("TFSTEPS_MODEL_DIR", f"{OUTPUT}/model")
CHECKPOINTS = f"{OUTPUT}/checkpoints"
STEPS_PER_EPOCH = 20
BATCH = 64
RATE = 0.5

tf.get_logger().setLevel("ERROR")  # each save warns about a retraced function


class Classifier(tf.Module):
    """Two layers."""

    def __init__(self):
        super().__init__()
        self.weights = [tf.Variable(tf.random.stateless_normal(size, seed=[1, 2])) for size in ([2, 32], [32, 2])]
        self.biases = [tf.Variable(tf.zeros([size])) for size in (32, 2)]

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)])
    def __call__(self, x):
        hidden = tf.nn.relu(x @ self.weights[0] + self.biases[0])
        return hidden @ self.weights[1] + self.biases[1]


def points():
    """Return endless batches of points and on which side of a circle they lie: put your data here."""

    def batch(number):
        x = tf.random.stateless_uniform([BATCH, 2], seed=[0, tf.cast(number, tf.int32)], minval=-1, maxval=1)
        return x, tf.cast(tf.norm(x, axis=1) < 0.75, tf.int32)

    return tf.data.Dataset.range(2**31 - 1).map(batch)


def coordinate(resolver, epochs):
    """Run the chief: create the variables on the ps, schedule steps on the workers, save checkpoints, export."""
    strategy = tf.distribute.ParameterServerStrategy(resolver)  # waits for every ps and worker
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = Classifier()
        epoch = tf.Variable(0, dtype=tf.int64, trainable=False)
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(model=model, epoch=epoch), CHECKPOINTS, max_to_keep=2)
    if manager.restore_or_initialize():
        print(f"resumes after epoch {int(epoch.numpy())}", flush=True)

    @tf.function
    def train_step(iterator):
        x, y = next(iterator)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x)))
        variables = [*model.weights, *model.biases]
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(RATE * gradient)
        return loss

    iterator = iter(coordinator.create_per_worker_dataset(points))
    with tf.summary.create_file_writer(LOGS).as_default() as writer:
        for number in range(int(epoch.numpy()) + 1, epochs + 1):
            losses = [coordinator.schedule(train_step, args=(iterator,)) for _ in range(STEPS_PER_EPOCH)]
            coordinator.join()  # another worker repeats the steps of a lost worker
            loss = sum(coordinator.fetch(losses)) / STEPS_PER_EPOCH
            epoch.assign(number)
            tf.summary.scalar("loss", loss, step=number)
            writer.flush()
            manager.save(checkpoint_number=number)
            print(f"epoch {number} loss {float(loss):.4f}", flush=True)
    tf.saved_model.save(model, MODEL)
    print(f"exported to {MODEL}", flush=True)
    os._exit(0)  # a normal exit prints errors, because the servers end with the chief


def main(epochs):
    """Coordinate as the chief, else serve until the job ends."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
    if resolver.task_type == "chief":
        coordinate(resolver, epochs)
    server = tf.distribute.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id, protocol="grpc")
    print(f"serves as {resolver.task_type} {resolver.task_id}", flush=True)
    server.join()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5, help="passes of 20 steps")
    main(parser.parse_args().epochs)
