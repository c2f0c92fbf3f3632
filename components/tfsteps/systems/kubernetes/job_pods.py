"""The fields of a job's pods that are read. Others, such as the TF_CONFIG of a large job, may have 40 KB a pod."""

from typing import Any, TypedDict

import msgspec

from tfsteps.kube.resource import PODS


class _PodMeta(TypedDict, total=False):
    name: str
    namespace: str
    uid: str
    resourceVersion: str
    creationTimestamp: Any
    deletionTimestamp: Any
    deletionGracePeriodSeconds: Any
    labels: Any
    annotations: Any
    ownerReferences: Any


class _PodContainer(TypedDict, total=False):
    name: str
    resources: Any
    restartPolicy: Any


class _PodSpec(TypedDict, total=False):
    nodeName: Any
    restartPolicy: Any
    containers: list[_PodContainer] | None
    initContainers: list[_PodContainer] | None


class _PodCondition(TypedDict, total=False):
    type: str
    status: str
    reason: Any
    message: Any
    lastTransitionTime: Any


class _ContainerStatus(TypedDict, total=False):
    name: str
    state: Any
    lastState: Any
    restartCount: int
    imageID: Any


class _PodStatus(TypedDict, total=False):
    phase: str
    reason: Any
    message: Any
    conditions: list[_PodCondition] | None
    initContainerStatuses: list[_ContainerStatus] | None
    containerStatuses: list[_ContainerStatus] | None


class _PodItem(TypedDict, total=False):
    kind: str
    apiVersion: str
    metadata: _PodMeta
    spec: _PodSpec
    status: _PodStatus


JOB_PODS = msgspec.structs.replace(PODS, shape=_PodItem)
"""The pods of jobs, with the fields that say whose they are and how they are."""
