"""What a job file may say below `systems: {tfjob-v1alpha1: ...}`."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tfsteps.spec import TrainingJob, options_of
from tfsteps.spec.fields import Image

_Port = Annotated[int, Meta(ge=1, le=65_535, description="a whole number from 1 to 65535", examples=[2222])]


class TfJobOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a TfJob, the job object before kubeflow.org/v1.

    Attributes:
        api: Whose TfJob: tensorflow.org = tensorflow/k8s of 2017; kubeflow.org = its release as tf-operator 0.1.0,
            which has no TensorBoard and no default parameter server.
        tf_config: Whose TF_CONFIG the replicas get: tfsteps = with a `chief`, as TensorFlow 2 reads it; operator =
            with a `master`, as programs of TensorFlow 1 and default parameter servers expect it, and without a shell
            before the command. Empty = operator for default parameter servers beside images that run their own
            entrypoint, else tfsteps.
        tf_image: Image of the TensorBoard and of default parameter servers. Empty = `tensorboard.image`, or the job's.
        tf_port: Port of every replica in TF_CONFIG.
        default_ps: Let the operator run its own program as the parameter servers; the role's template is not used. The
            operator's configuration has to name that program in `grpcServerFilePath`.
        tensorboard_service: Type of the TensorBoard's Service.
        scheduler_name: Scheduler of all pods; kubeflow.org only, elsewhere `pod` says it.
        priority_class: PriorityClass of the pods.
        gpu_label: Node label whose value is the model of the node's GPUs; `gpu_type` is looked for there.
    """

    api: Literal["tensorflow.org", "kubeflow.org"] = "tensorflow.org"
    tf_config: Literal["tfsteps", "operator"] | None = None
    tf_image: Image | None = None
    tf_port: _Port = 2222
    default_ps: bool = False
    tensorboard_service: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    scheduler_name: str | None = None
    priority_class: str | None = None
    gpu_label: str = "nvidia.com/gpu.product"


def keeps_operators_tf_config(job: TrainingJob) -> bool:
    """Tell whether the replicas get TF_CONFIG as the operator writes it."""
    options = options_of(job, "tfjob-v1alpha1", TfJobOptions)
    if options.tf_config or not options.default_ps:
        return options.tf_config == "operator"
    return not any(role.command for name, role in job.resolved_roles().items() if name in ("chief", "worker"))


OPTIONS = TfJobOptions
