"""docs/systems/features.md: what each job system can do, from the capabilities by which jobs are refused and warned."""

from tests.cluster.platforms import PLATFORMS
from tfsteps.systems import registry
from tfsteps.systems.capabilities import Level
from tfsteps.systems.features import FEATURES


def _tested(part):
    """Return the versions of a part that the test cluster has had, the newest first."""
    return " and ".join(versions[part] for versions in PLATFORMS.values())


TESTED = {
    "kubeflow": f"training operator {_tested('training-operator')}",
    "jobset": f"JobSet {_tested('jobset')}",
    "trainjob": f"Kubeflow Trainer {_tested('trainer')}; on an API server, the CRDs of 2.1.0 and 2.2.1",
    "jobs": f"Kubernetes {_tested('kubernetes')}",
}
"""What a page says of each system that runs on the test cluster."""

INTRO = f"""# Features of each job system

<!-- Written by `make golden` from components/tfsteps/systems/*/capabilities.py. -->

One job file runs on every job system: `tfsteps run job.yaml --system NAME`. The tables say what happens to each feature
that a job may use:

| | meaning |
|---|---|
| native | The job system does it |
| done | tfsteps does it |
| **refused** | The job is refused before anything is created, with the reason and what to do |
| no effect | The feature is ignored, with a warning |

A job is refused and warned by the objects that this page is written from. Each native or done cell has a case in
`tests/conformance`, or a test that is marked `shows` for it; on a cluster it is also accepted by the API server. For
queues and priorities on a cluster only the acceptance is tested. Each refused cell is tested to be refused.

| system | what it is | tested with |
|---|---|---|
| `local` | processes of this machine | itself |
| `kubeflow` | TFJob `kubeflow.org/v1` of the training operator | {TESTED["kubeflow"]} |
| `jobset` | JobSet `jobset.x-k8s.io/v1alpha2` | {TESTED["jobset"]} |
| `trainjob` | TrainJob `trainer.kubeflow.org/v1alpha1` of Kubeflow Trainer | {TESTED["trainjob"]} |
| `jobs` | plain Kubernetes Jobs, no operator | {TESTED["jobs"]} |
| `t9k` | TensorFlowTrainingJob `batch.tensorstack.dev/v1beta1` | a test controller [1] |
| `tfjob-v1alpha1` | TfJob `tensorflow.org/v1alpha1`, or `kubeflow.org/v1alpha1` of v0.1.0 | a test controller [2] |
| `hai` | HAI Platform, by its REST interface | a test server written from its protocol; ranks are real processes |

[1] Written from its public documents, on a real API server: the controller itself is not public.

[2] Written from its sources, on a real API server: the controller itself does not run on today's Kubernetes."""

MARKS = {Level.NATIVE: "native", Level.DONE: "done", Level.REFUSED: "**refused**", Level.UNUSED: "no effect"}


def page():
    """Return the page."""
    tables = {name: registry.capabilities_of(name) for name in registry.NAMES}
    rows = [
        [feature.title, *(MARKS[table[name].level] for table in tables.values())] for name, feature in FEATURES.items()
    ]
    notes = [note for name, capabilities in tables.items() for note in (f"## `{name}`", how(capabilities))]
    return "\n\n".join([INTRO, "## All systems", table(["", *(f"`{name}`" for name in tables)], rows), *notes]) + "\n"


def how(capabilities):
    cells = [(feature.title, capabilities[name]) for name, feature in FEATURES.items()]
    rows = [[title, MARKS[cell.level], f"{cell.note}. {cell.fix}" if cell.fix else cell.note] for title, cell in cells]
    return table(["feature", "", "how, or why not and what to do"], rows)


def table(header, rows):
    return "\n".join([_line(header), "|" + "---|" * len(header), *map(_line, rows)])


def _line(cells):
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
