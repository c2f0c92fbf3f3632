"""Compiles one pipeline of many training steps, and prints the CPU seconds that it took and the bytes it became.

python -m benchmarks.compile_once tfsteps|bare STEPS

Bare is what an author would write with the SDK alone: a container component of the same function that passes on the
same settings of its tasks (4 % of the YAML is that), the run's id given and caching turned off at each step.
"""

import json
import pathlib
import sys
import tempfile
import time

from kfp import compiler, dsl

from tfsteps.kfp import train

SETTINGS = {"name": "bench", "image": "trainer:1", "command": ["python", "train.py"], "workers": 2}


def bare_step():
    component = dsl.container_component(train.pipeline_func)
    component.component_spec.task_config_passthroughs = train.component_spec.task_config_passthroughs
    return lambda: component(**SETTINGS, run_id=dsl.PIPELINE_JOB_ID_PLACEHOLDER).set_caching_options(False)


def main(which: str, steps: str) -> None:
    step = bare_step() if which == "bare" else lambda: train(**SETTINGS)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "bench.yaml")
        began = time.process_time()

        @dsl.pipeline(name="bench")
        def bench():
            for _ in range(int(steps)):
                step()

        compiler.Compiler().compile(bench, str(file))
        print(json.dumps([time.process_time() - began, file.stat().st_size]))


if __name__ == "__main__":
    main(*sys.argv[1:])
