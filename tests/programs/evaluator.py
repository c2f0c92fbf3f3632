"""The evaluator beside mwms.py: follows OUT/ckpt, scores every checkpoint it sees, writes OUT/logs/eval.

An evaluator is a task of type `evaluator` that is NOT listed in TF_CONFIG's cluster and must not build the training
strategy. Tasks of any other type run mwms.py, so one command serves every role of a job.

Exit code: 0 after the checkpoint of the last step, 3 when no new one came for EVAL_IDLE seconds.

Environment: TFSTEPS_OUTPUT_DIR, EPOCHS, STEPS as in mwms.py; EVAL_IDLE in seconds (default 30).
"""

import json
import os
import sys
import time

import mwms
import tensorflow as tf

LAST_STEP = mwms.EPOCHS * mwms.STEPS
IDLE = float(os.environ.get("EVAL_IDLE", "30"))


def evaluate():
    tf.config.threading.set_intra_op_parallelism_threads(1)
    model = mwms.Regression()
    step = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(model=model, step=step)
    x = tf.random.stateless_uniform([1024, mwms.FEATURES], seed=[99, 0])
    y = tf.reduce_sum(x, 1, keepdims=True)
    with tf.summary.create_file_writer(f"{mwms.OUT}/logs/eval").as_default():
        for path in tf.train.checkpoints_iterator(f"{mwms.OUT}/ckpt", timeout=IDLE):
            if not restored(checkpoint, path):
                mwms.log("skip", path)
                continue
            seen, loss = int(step.numpy()), model.loss(x, y)
            tf.summary.scalar("loss", loss, step=seen)
            tf.summary.flush()
            mwms.log(f"eval step {seen} loss {float(loss):.6f}")
            if seen >= LAST_STEP:
                mwms.log("evaluator done")
                return 0
    mwms.log(f"no new checkpoint for {IDLE:g} s")
    return 3


def restored(checkpoint, path):
    """Read a checkpoint, which comes up once, maybe before all of it is there; False = there is a newer one."""
    end = time.monotonic() + IDLE
    while time.monotonic() < end:
        try:
            checkpoint.restore(path).assert_existing_objects_matched()
        except tf.errors.OpError:
            if tf.train.latest_checkpoint(f"{mwms.OUT}/ckpt") not in (None, path):
                return False
            time.sleep(0.1)
        else:
            return True
    return False


def main():
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {})
    if task.get("type") == "evaluator":
        return evaluate()
    return mwms.main()


if __name__ == "__main__":
    sys.exit(main())
