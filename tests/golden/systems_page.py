"""docs/systems/features.md: what each job system can do, from the capabilities by which jobs are refused and warned."""

from tests.cluster.platforms import PLATFORMS
from tests.support.markdown import entry, table
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

INTRO = """# Features of each job system

<!-- Written by `make golden` from components/tfsteps/systems/*/capabilities.py. -->

One job file runs on every job system: `tfsteps run job.yaml --system NAME`. This page says what happens to each feature
that a job may use:

| | meaning |
|---|---|
| native | The job system does it |
| done | tfsteps does it |
| **refused** | The job is refused before anything is created, with the reason and what to do |
| no effect | The feature is ignored, with a warning |

A job is refused and warned by the objects that this page is written from. Each native or done cell has a case in
`tests/conformance`, or a test that is marked `shows` for it; on a cluster it is also accepted by the API server. For
queues and priorities on a cluster only the acceptance is tested. Each refused cell is tested to be refused."""

SYSTEMS = {
    "local": ("processes of this machine", "Tested with itself."),
    "kubeflow": ("TFJob `kubeflow.org/v1` of the training operator", ""),
    "jobset": ("JobSet `jobset.x-k8s.io/v1alpha2`", ""),
    "trainjob": ("TrainJob `trainer.kubeflow.org/v1alpha1` of Kubeflow Trainer", ""),
    "jobs": ("plain Kubernetes Jobs, no operator", ""),
    "t9k": (
        "TensorFlowTrainingJob `batch.tensorstack.dev/v1beta1`",
        (
            "Tested with a test controller, which is written from its public documents, on a real API server: the "
            "controller itself is not public."
        ),
    ),
    "tfjob-v1alpha1": (
        "TfJob `tensorflow.org/v1alpha1`, or `kubeflow.org/v1alpha1` of v0.1.0",
        (
            "Tested with a test controller, which is written from its sources, on a real API server: the controller "
            "itself does not run on today's Kubernetes."
        ),
    ),
    "hai": (
        "HAI Platform, by its REST interface",
        "Tested with a test server, written from its protocol; ranks are real processes.",
    ),
}
"""What each system is, and what it is tested with unless `TESTED` says it."""

MARKS = {Level.NATIVE: "native", Level.DONE: "done", Level.REFUSED: "**refused**", Level.UNUSED: "no effect"}


def page():
    """Return the page."""
    tables = {name: registry.capabilities_of(name) for name in registry.NAMES}
    rows = [
        [feature.title, *(MARKS[table[name].level] for table in tables.values())] for name, feature in FEATURES.items()
    ]
    notes = [note for name, capabilities in tables.items() for note in (f"## `{name}`", how(capabilities))]
    overview = table(["", *(f"`{name}`" for name in tables)], rows)
    systems = [
        entry(f"**`{name}`**", tests or f"Tested with {TESTED[name]}.", [what])
        for name, (what, tests) in SYSTEMS.items()
    ]
    return "\n\n".join([INTRO, "\n".join(systems), "## All systems", overview, *notes]) + "\n"


def how(capabilities):
    cells = [(feature.title, capabilities[name]) for name, feature in FEATURES.items()]
    return "\n".join(
        entry(f"**{title}**", f"{cell.note}. {cell.fix}" if cell.fix else cell.note, [MARKS[cell.level]])
        for title, cell in cells
    )
