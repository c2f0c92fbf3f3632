"""A training that diverges, without TensorFlow: at step DIVERGE_AT worker 1 finds a loss that is no number, and fails.

The other workers go on waiting for it. Without DIVERGE_AT all end well.
"""

import json
import os
import time

STEPS = 5


def main() -> None:
    config = json.loads(os.environ.get("TF_CONFIG", "{}"))
    worker = int(config.get("task", {}).get("index", 0))
    bad = int(os.environ.get("DIVERGE_AT") or STEPS + 1)
    for step in range(1, STEPS + 1):
        if step >= bad and worker != 1:
            time.sleep(3600)
        if step >= bad:
            raise SystemExit(f"step {step} loss nan: the learning rate is too high")
        print(f"step {step} loss {1 / step:.4f}", flush=True)
        time.sleep(0.1)


if __name__ == "__main__":
    main()
