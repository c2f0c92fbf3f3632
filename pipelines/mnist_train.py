"""Trains a small digit classifier, distributed as TF_CONFIG says. One program for every role.

chief and worker       MultiWorkerMirroredStrategy: all train in step, the chief (else worker 0) saves
chief, worker and ps   ParameterServerStrategy: the chief schedules steps on the workers, the variables live on the ps
evaluator              follows the checkpoints

A plain loop over a tf.Module: Keras 3's `fit` supports neither strategy. An interrupted run goes on from the newest
checkpoint, with the batches it would have seen.

Environment: TFSTEPS_DATA (the file that `digits.save` wrote), TFSTEPS_OUTPUT_DIR, TFSTEPS_MODEL_DIR, TFSTEPS_LOG_DIR,
and the settings EPOCHS, HIDDEN (units) and LEARNING_RATE.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator

import digits

# Before TensorFlow is imported: less talk, and numbers that do not depend on the machine's instruction set.
os.environ.update(TF_CPP_MIN_LOG_LEVEL="2", TF_ENABLE_ONEDNN_OPTS="0")
import tensorflow as tf

Resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver
OUTPUT = os.environ.get("TFSTEPS_OUTPUT_DIR", "out")  # these three may be URIs, such as gs://bucket/folder
MODEL = os.environ.get("TFSTEPS_MODEL_DIR", f"{OUTPUT}/model")
LOGS = os.environ.get("TFSTEPS_LOG_DIR", f"{OUTPUT}/logs")
CHECKPOINTS = f"{OUTPUT}/checkpoints"
SETTINGS = {name: os.environ.get(name, default) for name, default in (("HIDDEN", "64"), ("LEARNING_RATE", "1.0"))}
HIDDEN = int(SETTINGS["HIDDEN"])
LEARNING_RATE = float(SETTINGS["LEARNING_RATE"])
BATCH = 64
STEPS = 50  # an epoch


class Classifier(tf.Module):
    """Two dense layers. With mean aggregation, `assign_sub` in replica context averages over all replicas."""

    def __init__(self) -> None:
        pixels = digits.SIDE * digits.SIDE
        self.w1 = self._variable("w1", tf.random.stateless_normal([pixels, HIDDEN], [1, 1]) * (2 / pixels) ** 0.5)
        self.b1 = self._variable("b1", tf.zeros([HIDDEN]))
        self.w2 = self._variable("w2", tf.random.stateless_normal([HIDDEN, digits.CLASSES], [1, 2]) * HIDDEN**-0.5)
        self.b2 = self._variable("b2", tf.zeros([digits.CLASSES]))

    @staticmethod
    def _variable(name: str, value: tf.Tensor) -> tf.Variable:
        return tf.Variable(value, name=name, aggregation=tf.VariableAggregation.MEAN)

    @tf.function(input_signature=[tf.TensorSpec([None, digits.SIDE * digits.SIDE], tf.float32, name="images")])
    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        """Return one logit for each class."""
        return tf.nn.relu(images @ self.w1 + self.b1) @ self.w2 + self.b2

    def learn(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Take one step down the gradient and return the loss."""
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, self(images))
            loss = tf.reduce_mean(losses)
        variables = self.trainable_variables
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(LEARNING_RATE * gradient)
        return loss


def batches(first: int, pipeline: int) -> tf.data.Dataset:
    """Return the endless batches from number `first` on; batch i depends on (pipeline, i) alone."""
    images, labels = digits.load(os.environ["TFSTEPS_DATA"], "train")
    images, labels = tf.constant(images), tf.constant(labels)

    def batch(i: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        seed = tf.stack([tf.cast(pipeline, tf.int64), i])
        chosen = tf.random.stateless_uniform([BATCH], seed, maxval=labels.shape[0], dtype=tf.int32)
        return tf.gather(images, chosen), tf.gather(labels, chosen)

    return tf.data.Dataset.range(first, tf.int64.max).map(batch)


class Progress:
    """The step counter, the checkpoints, the curve of the loss. All restore, the decisive task alone keeps."""

    def __init__(self, model: Classifier, *, decides: bool, shared: bool) -> None:
        self.model = model
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
        self._checkpoint = tf.train.Checkpoint(model=model, step=self.step)
        self.scratch = tempfile.TemporaryDirectory()
        folder = CHECKPOINTS if decides or not shared else self.scratch.name  # all must save for a save to work
        self._manager = tf.train.CheckpointManager(self._checkpoint, folder, max_to_keep=3)
        self._writer = tf.summary.create_file_writer(f"{LOGS}/train") if decides else None
        if latest := tf.train.latest_checkpoint(CHECKPOINTS):
            self._checkpoint.restore(latest).assert_existing_objects_matched()
            log(f"going on from step {self.at}")

    @property
    def at(self) -> int:
        return int(self.step.numpy())

    def save(self, loss: tf.Tensor) -> None:
        """Save a checkpoint, and a point of the curve."""
        self._manager.save(checkpoint_number=self.at)
        if self._writer:
            with self._writer.as_default():
                tf.summary.scalar("loss", loss, step=self.at)
            self._writer.flush()
        log(f"step {self.at} loss {float(loss):.4f}")


def train_mirrored(last: int, *, decides: bool, scores: bool) -> None:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # blocks until every peer is there
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # building the strategy made the process deaf to it
    with strategy.scope():
        model = Classifier()
        progress = Progress(model, decides=decides, shared=True)

    @tf.function
    def train_step(iterator: Iterator) -> tf.Tensor:
        losses = strategy.run(lambda batch: model.learn(*batch), args=(next(iterator),))
        return strategy.reduce("MEAN", losses, axis=None)

    def dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
        return batches(progress.at, context.input_pipeline_id)

    iterator = iter(strategy.distribute_datasets_from_function(dataset))
    while progress.at < last:
        for _ in range(STEPS):
            loss = train_step(iterator)
        progress.step.assign_add(STEPS)
        progress.save(loss)
    if decides:
        export(model)
    if decides and scores:
        with tf.summary.create_file_writer(f"{LOGS}/eval").as_default():
            score(model, progress.at)
    progress.scratch.cleanup()
    leave_together(strategy)


def train_on_servers(resolver: Resolver, last: int) -> None:
    strategy = tf.distribute.ParameterServerStrategy(resolver)  # blocks until every ps and worker answers
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = Classifier()
        progress = Progress(model, decides=True, shared=False)

    @tf.function
    def train_step(iterator: Iterator) -> tf.Tensor:
        return model.learn(*next(iterator))

    first = progress.at
    iterator = iter(coordinator.create_per_worker_dataset(lambda: batches(first, 0)))
    while progress.at < last:
        losses = [coordinator.schedule(train_step, args=(iterator,)) for _ in range(STEPS)]
        coordinator.join()  # the steps of a lost worker run again on another one
        progress.step.assign_add(STEPS)
        progress.save(sum(coordinator.fetch(losses)) / STEPS)
    export(model)
    sys.stdout.flush()
    os._exit(0)  # an orderly exit prints screens of errors about servers that have left


def serve(resolver: Resolver) -> None:
    threads = max(4, resolver.cluster_spec().num_tasks("worker") + 1)  # serving needs threads of its own
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=threads)
    server = tf.distribute.Server(
        resolver.cluster_spec(), resolver.task_type, resolver.task_id, protocol="grpc", config=config
    )
    server.join()  # never returns: the job system ends servers when the chief is done


def evaluate(last: int, idle: float) -> None:
    """Score every checkpoint that is seen, the last one at any rate."""
    model, step = Classifier(), tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(model=model, step=step)
    with tf.summary.create_file_writer(f"{LOGS}/eval").as_default():
        for path in tf.train.checkpoints_iterator(CHECKPOINTS, timeout=idle):
            if not restored(checkpoint, path, idle):
                continue
            score(model, int(step.numpy()))
            if int(step.numpy()) >= last:
                return
    raise SystemExit(f"no checkpoint for {idle:g} s")


def restored(checkpoint: tf.train.Checkpoint, path: str, idle: float) -> bool:
    """Read a checkpoint, which comes up once, maybe before all of it is there; False = there is a newer one."""
    end = time.monotonic() + idle
    while time.monotonic() < end:
        try:
            checkpoint.restore(path).assert_existing_objects_matched()
        except tf.errors.OpError:
            if tf.train.latest_checkpoint(CHECKPOINTS) not in (None, path):
                return False
            time.sleep(0.1)
        else:
            return True
    return False


def score(model: Classifier, step: int) -> None:
    images, labels = digits.load(os.environ["TFSTEPS_DATA"], "test")
    accuracy = float((tf.argmax(model(images), 1).numpy() == labels).mean())
    tf.summary.scalar("accuracy", accuracy, step=step)
    tf.summary.flush()
    log(f"step {step} accuracy {accuracy:.4f}")


def export(model: Classifier) -> None:
    tf.saved_model.save(model, MODEL)
    with tf.io.gfile.GFile(f"{OUTPUT}/settings.json", "w") as file:
        file.write(json.dumps(SETTINGS))
    log(f"model saved to {MODEL}")


def leave_together(strategy: tf.distribute.Strategy) -> None:
    """Meet every peer once more, then end at once: the interpreter's own way out is slow when the leader goes first."""

    @tf.function
    def barrier() -> None:
        strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.ones([])))

    try:
        barrier()
    except tf.errors.OpError as error:  # a peer left a few milliseconds earlier; all work is saved
        log(f"final barrier: {type(error).__name__}")
    sys.stdout.flush()
    os._exit(0)


def log(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=os.environ.get("EPOCHS", "6"), help=f"epochs of {STEPS} steps")
    parser.add_argument("--score", action="store_true", help="score the model at the end; for jobs without evaluator")
    parser.add_argument("--idle", type=float, default=300, help="seconds that the evaluator waits for a checkpoint")
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error("--epochs must be at least 1")
    # One thread: sums repeat bit by bit, and several replicas share a machine's cores better.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    tf.random.set_seed(1)
    config = json.loads(os.environ.get("TF_CONFIG", "{}"))
    task, cluster = config.get("task", {"type": "worker", "index": 0}), config.get("cluster", {})
    last = options.epochs * STEPS
    resolver = Resolver(rpc_layer="grpc")
    if task["type"] == "evaluator":
        evaluate(last, options.idle)
    elif "ps" not in cluster:
        decides = task["type"] == "chief" or ("chief" not in cluster and int(task["index"]) == 0)
        train_mirrored(last, decides=decides, scores=options.score)
    elif task["type"] == "chief":
        train_on_servers(resolver, last)
    else:
        serve(resolver)


if __name__ == "__main__":
    main()
