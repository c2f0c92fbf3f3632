"""What a job's pods need to be there: found wherever a pod can name it, and passed over where it is optional."""

import pytest

from tfsteps.systems.kubernetes.job_kind import RoleSpec
from tfsteps.systems.kubernetes.preflight.references import references

NOTHING = {"metadata": {}, "spec": {}}


def references_of(spec, item=NOTHING):
    role = RoleSpec(1, {"spec": {"containers": [], **spec}})
    return [(reference.resource.kind, reference.name, reference.key) for reference in references(item, [role])]


def volume(**source):
    return {"volumes": [{"name": "v", **source}]}


def container(**fields):
    return {"containers": [{"name": "tensorflow", **fields}]}


def env(**source):
    return container(env=[{"name": "PLAIN", "value": "1"}, {"name": "A", "valueFrom": source}])


CASES = [
    ({}, []),
    ({"serviceAccountName": "bob"}, [("ServiceAccount", "bob", "")]),
    ({"priorityClassName": "high"}, [("PriorityClass", "high", "")]),
    (volume(persistentVolumeClaim={"claimName": "data"}), [("PersistentVolumeClaim", "data", "")]),
    (volume(secret={"secretName": "s"}), [("Secret", "s", "")]),
    (volume(secret={"secretName": "s", "optional": True}), []),
    (volume(secret={"secretName": "s", "items": [{"key": "k", "path": "p"}]}), [("Secret", "s", "k")]),
    (volume(configMap={"name": "c"}), [("ConfigMap", "c", "")]),
    (volume(projected={"sources": [{"secret": {"name": "s"}}, {"configMap": {"name": "c"}}, {"downwardAPI": {}}]}),
     [("Secret", "s", ""), ("ConfigMap", "c", "")]),
    (volume(emptyDir={}), []),
    (volume(secret={"optional": False}), []),
    (volume(secret=None), []),
    (env(secretKeyRef={"name": "s", "key": "k"}), [("Secret", "s", "k")]),
    (env(secretKeyRef={"name": "s", "key": "k", "optional": True}), []),
    (env(configMapKeyRef={"name": "c", "key": "k"}), [("ConfigMap", "c", "k")]),
    (env(fieldRef={"fieldPath": "metadata.name"}), []),
    (container(envFrom=[{"secretRef": {"name": "s"}}, {"configMapRef": {"name": "c"}}]),
     [("Secret", "s", ""), ("ConfigMap", "c", "")]),
    ({"initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "s"}}]}]}, [("Secret", "s", "")]),
    ({"imagePullSecrets": [{"name": "s"}]}, []),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), CASES)
def test_what_a_pod_names(spec, expected):
    assert references_of(spec) == expected


def test_what_a_job_names():
    labels = {"kueue.x-k8s.io/queue-name": "research"}
    item = {"metadata": {"labels": labels}, "spec": {"runPolicy": {"schedulingPolicy": {"priorityClass": "high"}}}}
    assert references_of({}, item) == [("PriorityClass", "high", ""), ("LocalQueue", "research", "")]


def test_each_is_looked_for_once():
    role = RoleSpec(1, {"spec": {"containers": [], "serviceAccountName": "bob"}})
    assert len(references(NOTHING, [role, role])) == 1
