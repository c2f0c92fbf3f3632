"""What a real Kubeflow Pipelines back end makes of our steps, as tables.

KF_PIPELINES_ENDPOINT names the back end and KUBECONFIG its cluster. The cluster has the training operator, the janitor
and the permissions of manifests/overlays/kubeflow-pipelines, and for `pipelines` the claim `training`. No test: there
is no back end without the sources of Kubeflow Pipelines; tests/kfp_pods holds on to what was seen here. `examples` are
those of the docs, without their GPUs; that of TensorBoard needs tfsteps/tensorboard:VERSION on the node. `rules` runs
schedules for --minutes.
"""

import argparse
import concurrent.futures
import dataclasses
import functools
import itertools
import json
import time
import traceback
from collections.abc import Callable, Iterator

from tests.kfp_backend.backend import Backend
from tests.kfp_backend.losses import LOSSES, SHAPES, LossCase
from tests.kfp_backend.rules import Rules
from tests.pipelines.test_on_argo import QUICK, SMALL, TRIALS
from tests.preflight.conftest import ROOT, Cluster
from tests.support.doc_examples import examples
from tfsteps import __version__
from tfsteps.image import IMAGE

TABLES = ("pipelines", "examples", "losses", "rules")
TRAINS = "ghcr.io/acme/mnist:1.4"
PIPELINES = {
    "finalizer": ({}, "FAILED"),
    "side_by_side": ({**SMALL, "champion": {"EPOCHS": "1"}, "challenger": {"EPOCHS": "1"}}, "SUCCEEDED"),
    "nightly": ({**QUICK, "accuracy": 0}, "SUCCEEDED"),
    "fan_out": ({**SMALL, "trials": TRIALS}, "SUCCEEDED"),
    "mnist": ({**QUICK, "workers": 1, "accuracy": 1.01}, "SUCCEEDED"),
    "parameter_server": ({**QUICK, "workers": 1, "servers": 1}, "SUCCEEDED"),
}
"""Inputs, and the state in which it ends as its page says."""


def main() -> None:
    args = _arguments()
    image_files = {IMAGE: args.launcher, f"tfsteps/digits:{__version__}": args.digits, TRAINS: args.mnist}
    images = {name: image for name, image in image_files.items() if image}
    backend = Backend(Cluster(), args.namespace, images)
    with concurrent.futures.ThreadPoolExecutor(args.at_once) as pool:
        names = {pool.submit(fill): name for name, fill in _cells(backend, args)}
        for done in concurrent.futures.as_completed(names):
            error = done.exception()
            print(f"| {names[done]} | {repr(error) if error else done.result()} |", flush=True)
            if error:
                traceback.print_exception(error, limit=-2)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.kfp_backend", description=__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"{', '.join(TABLES)}; left out: all")
    parser.add_argument("--namespace", default="kubeflow")
    parser.add_argument("--launcher", required=True, help="the launcher's image, on the node")
    parser.add_argument("--digits", help="the image of pipelines/Dockerfile, on the node")
    parser.add_argument("--mnist", help="an image with train.py and promote.py for `examples`, on the node")
    parser.add_argument("--losses", default=",".join(LOSSES), help="cases, separated by commas")
    parser.add_argument("--shapes", default=",".join(SHAPES), help="columns, separated by commas")
    parser.add_argument("--minutes", type=int, default=16, help="how long the schedules of `rules` run")
    parser.add_argument("--at-once", type=int, default=4, help="runs side by side")
    args = parser.parse_args()
    if unknown := set(args.tables) - set(TABLES):
        parser.error(f"no table {', '.join(unknown)}")
    return args


def _cells(backend: Backend, args: argparse.Namespace) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the name of each cell, and what carries it out and returns its text."""
    tables = args.tables or TABLES
    if "pipelines" in tables:
        yield from ((f"pipeline | {name}", functools.partial(_pipeline, backend, name)) for name in PIPELINES)
    if "examples" in tables:
        for example in examples():
            shown = dataclasses.replace(example, code=example.code.replace(" gpu=1,", ""))
            for pipeline in shown.pipelines():
                yield f"example | {example}", functools.partial(_run, backend, pipeline, pipeline.name, {}, "SUCCEEDED")
    if "losses" in tables:
        for loss, shape in itertools.product(args.losses.split(","), args.shapes.split(",")):
            yield f"{loss} | {shape}", LossCase(backend, shape, loss).cell
    if "rules" in tables:
        yield "rules | schedules", Rules(backend, args.minutes).cell


def _pipeline(backend: Backend, name: str) -> str:
    inputs, expected = PIPELINES[name]
    return _run(backend, ROOT / f"pipelines/compiled/{name}.yaml", name, json.loads(json.dumps(inputs)), expected)


def _run(backend: Backend, pipeline, name: str, inputs, expected: str) -> str:
    began = time.time()
    run = backend.start(pipeline, name, inputs)
    state = backend.ended(run)
    verdict = "" if state == expected else f", EXPECTED {expected}"
    left = backend.running(run) or "nothing"
    return f"{state}{verdict} after {time.time() - began:.0f} s: {backend.tasks(run)}; left running: {left} [{run[:8]}]"


if __name__ == "__main__":
    main()
