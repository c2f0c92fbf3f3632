"""The job system `kubeflow`: TFJob, kubeflow.org/v1, of the training operator."""

from tfsteps.systems.base import System


def system() -> System:
    """Return the job system."""
    from tfsteps.systems.kubeflow.tfjob import TFJob  # noqa: PLC0415  the options alone are cheap to import
    from tfsteps.systems.kubernetes.system import KubernetesSystem  # noqa: PLC0415

    return KubernetesSystem(TFJob())
