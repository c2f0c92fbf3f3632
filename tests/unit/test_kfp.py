"""What authors of pipelines import costs next to nothing beside kfp itself."""

import json
import subprocess
import sys

import tfsteps.kfp

PROGRAM = """
import json, sys
import kfp
before = set(sys.modules)
from tfsteps.kfp import train
print(json.dumps(sorted(set(sys.modules) - before)))
"""
STEPS = {"cleanup", "evaluate_gate", "launch", "notify", "tensorboard", "train", "wait"}


def test_what_is_imported():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    imported = json.loads(done.stdout)
    ours = [name.split(".")[1:] for name in imported if name.startswith("tfsteps.")]
    assert {name[0] for name in ours} == {"engines", "image", "kfp", "steps", "yaml_reader"}
    assert {name[1] for name in ours if name[0] == "steps" and name[1:]} == STEPS
    assert not {name.partition(".")[0] for name in imported} & {"msgspec", "typer", "rich", "urllib3"}


def test_everything_that_is_exported_is_there():
    for name in tfsteps.kfp.__all__:
        assert getattr(tfsteps.kfp, name) is not None
    assert not hasattr(tfsteps.kfp, "nothing")


NESTED = """
from kfp import compiler, dsl
from tfsteps import kfp

@dsl.pipeline(name="outer")
def outer():
    kfp.train_and_finalize(name="a", image="a:1", command=["true"]).set_display_name("whole")
    kfp.train(name="b", image="a:1", command=["true"])

compiler.Compiler().compile(outer, "outer.yaml")
print(sorted(outer.pipeline_spec.root.dag.tasks))
"""


def test_a_pipeline_function_may_be_the_first_to_use_train_and_finalize(tmp_path):
    done = subprocess.run([sys.executable, "-c", NESTED], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "['train', 'train-and-finalize']\n"
