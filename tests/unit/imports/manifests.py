"""Hypothesis strategies for manifests as people write them, one for each kind that can be imported."""

import copy

from hypothesis import strategies as st

words = st.sampled_from(["a", "data", "no", "1", "1e3"])
variables = st.one_of(
    st.fixed_dictionaries({"name": st.sampled_from(["A", "B"]), "value": st.sampled_from(["", "1", "$(E)/x", "on"])}),
    st.just({"name": "C", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}),
    st.just({"name": "D", "valueFrom": {"configMapKeyRef": {"name": "hub", "key": "a.b", "optional": True}}}),
    st.just({"name": "E", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}),
    st.just({"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}}}),
    st.just({"name": "odd.name", "value": "x"}),
    st.just({"name": "TF_CONFIG", "value": "{}"}),
)
sources = st.sampled_from(
    [
        {"persistentVolumeClaim": {"claimName": "training"}},
        {"persistentVolumeClaim": {"claimName": "training", "readOnly": True}},
        {"secret": {"secretName": "keys"}},
        {"secret": {"secretName": "keys", "defaultMode": 256}},
        {"configMap": {"name": "settings"}},
        {"hostPath": {"path": "/mnt", "type": ""}},
        {"hostPath": {"path": "/mnt", "type": "Directory"}},
        {"nfs": {"server": "files", "path": "/x"}},
        {"emptyDir": {}},
        {"emptyDir": {"medium": "Memory"}},
        {"emptyDir": {"sizeLimit": "2Gi"}},
        {"emptyDir": {"medium": "Memory", "sizeLimit": "512Mi"}},
        {"azureFile": {"secretName": "keys", "shareName": "data"}},
    ]
)
resources = st.sampled_from(
    [
        None,
        {},
        {"limits": {"cpu": 2, "memory": "4Gi"}},
        {"limits": {"nvidia.com/gpu": 1}, "requests": {"cpu": "500m"}},
        {"limits": {"amd.com/gpu": "2", "cpu": "1500m"}, "requests": {"cpu": 1, "ephemeral-storage": "1Gi"}},
        {"requests": {"memory": "1Gi"}},
        {"limits": {"memory": "256Mi", "cpu": "1"}, "requests": {"memory": "256Mi", "cpu": 1}},
        {"limits": {"cpu": "10u", "nvidia.com/mig-1g.5gb": 1}},
    ]
)
tolerations = st.sampled_from(
    [
        None,
        [{"operator": "Exists"}],
        [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}],
        [{"key": "a", "operator": "Equal", "effect": "NoExecute", "tolerationSeconds": 60}],
        [{"key": "a", "operator": "Gt", "value": "1"}],
    ]
)
extras = st.sampled_from(
    [
        {},
        {"hostNetwork": True},
        {"serviceAccountName": "trainer", "imagePullSecrets": [{"name": "registry"}]},
        {"affinity": {"nodeAffinity": {}}, "priorityClassName": "high", "nodeSelector": {"zone": "a"}},
        {"initContainers": [{"name": "load", "image": "x", "volumeMounts": [{"name": "v0", "mountPath": "/in"}]}]},
    ]
)
container_extras = st.sampled_from(
    [
        {},
        {"imagePullPolicy": "Always", "workingDir": "/work"},
        {"ports": [{"containerPort": 2222, "name": "tfjob-port"}]},
        {"ports": [{"containerPort": 9090}], "securityContext": {"runAsUser": 1}},
        {"envFrom": [{"secretRef": {"name": "keys"}}]},
    ]
)


@st.composite
def pods(draw, name="tensorflow"):
    volumes = draw(st.lists(sources, max_size=3))
    names = draw(st.sampled_from([["v0", "v1", "v2"], ["v0", "volume-0", "shared-memory"]]))
    mounts = []
    for i, volume in enumerate(names[: len(volumes)]):
        folders = draw(st.sampled_from([[], ["/dev/shm" if i == 1 else f"/m{i}"], [f"/m{i}", f"/n{i}"]]))
        for folder in folders:
            more = draw(st.sampled_from([{}, {"readOnly": True}, {"subPath": "sub"}, {"subPathExpr": "$(A)"}]))
            mounts.append({"name": volume, "mountPath": folder, **more})
    extra = draw(extras)
    if "initContainers" in extra and not volumes:
        extra = {}
    container = {
        "name": name,
        "image": draw(st.sampled_from(["acme/mnist:1", "registry.example/team/flat@sha256:" + "0" * 64])),
        "command": draw(st.sampled_from([["python", "train.py"], ["sh", "-c", "a\nb"]])),
        "args": draw(st.sampled_from([None, ["--epochs", "1"], ["yes", "1:30", "~"]])),
        "env": draw(st.none() | st.lists(variables, max_size=4, unique_by=lambda item: item["name"])),
        "resources": draw(resources),
        "volumeMounts": mounts or draw(st.sampled_from([None, []])),
        **draw(container_extras),
    }
    sidecar = draw(st.sampled_from([[], [{"name": "log", "image": "x"}]]))
    spec = {
        "containers": draw(st.sampled_from([[container, *sidecar], [*sidecar, container]])),
        "volumes": [{"name": name, **source} for name, source in zip(names, volumes, strict=False)] or None,
        "tolerations": draw(tolerations),
        **extra,
    }
    metadata = draw(
        st.sampled_from([None, {"labels": {"app": "x"}, "creationTimestamp": None}, {"annotations": {"a": "b"}}])
    )
    return {"metadata": metadata, "spec": _set(spec, containers=[_set(item) for item in spec["containers"]])}


def _set(fields, **more):
    return {key: value for key, value in {**fields, **more}.items() if value is not None}


metadata = st.sampled_from(
    [
        {"name": "mnist", "namespace": "team"},
        {"name": "a.b", "labels": {"team": "vision", "kueue.x-k8s.io/queue-name": "gpus"}},
        {"generateName": "run-", "annotations": {"note": "on"}},
    ]
)


def optional(**fields):
    """Return a strategy of mappings with each of the fields, or without it."""
    return st.fixed_dictionaries({}, optional=fields)


seconds = st.integers(1, 10**8)
limits = st.integers(0, 10_000)
restarts = st.sampled_from(["Never", "OnFailure", "Always", "ExitCode"])
role_sets = st.sampled_from(
    [("Worker",), ("Chief", "Worker"), ("Worker", "PS"), ("Master", "Worker", "PS"), ("Chief", "Worker", "Evaluator")]
)


def _replicas(kind):
    return st.just(1) if kind in ("Chief", "Master", "Evaluator") else st.integers(1, 5)


def _tfjob_role(kind):
    return st.fixed_dictionaries(
        {"template": pods()}, optional={"replicas": _replicas(kind), "restartPolicy": restarts}
    )


tfjobs = role_sets.flatmap(
    lambda kinds: st.fixed_dictionaries(
        {
            "apiVersion": st.just("kubeflow.org/v1"),
            "kind": st.just("TFJob"),
            "metadata": metadata,
            "spec": st.fixed_dictionaries(
                {"tfReplicaSpecs": st.fixed_dictionaries({kind: _tfjob_role(kind) for kind in kinds})},
                optional={
                    "runPolicy": optional(
                        backoffLimit=limits,
                        activeDeadlineSeconds=seconds,
                        ttlSecondsAfterFinished=st.integers(0, 10**8),
                        cleanPodPolicy=st.sampled_from(["None", "Running", "All"]),
                        suspend=st.booleans(),
                        schedulingPolicy=optional(
                            minAvailable=st.integers(1, 5),
                            priorityClass=st.just("high"),
                            scheduleTimeoutSeconds=st.integers(1, 600),
                        ),
                    ),
                    "enableDynamicWorker": st.booleans(),
                },
            ),
        }
    )
)


def _scheduled_by(drawn):
    manifest, scheduler = copy.deepcopy(drawn)  # its parts are those of other examples, too
    for replica in manifest["spec"]["tfReplicaSpecs"].values():
        replica["template"]["spec"] |= {"schedulerName": scheduler} if scheduler else {}
    return manifest


tfjobs = st.tuples(tfjobs, st.sampled_from(["", "scheduler-plugins-scheduler", "coscheduler", "volcano"])).map(
    _scheduled_by
)

_queued = st.fixed_dictionaries({"queue": st.just("q")}, optional={"priority": st.integers(0, 100)})


def _t9k_role(kind):
    return st.fixed_dictionaries(
        {"type": st.just(kind.lower()), "template": pods()},
        optional={"replicas": _replicas(kind), "restartPolicy": restarts},
    )


def _type(spec):
    return spec["type"]


def _t9k_mode(kinds):
    of_role = st.sampled_from([kind.lower() for kind in kinds])
    programs = {"command": st.just(["sleep", "1"]), "skipInitContainer": st.just(True)}
    role_fields = {"type": of_role, "skipInitContainer": st.booleans()}
    held = st.fixed_dictionaries(role_fields, optional={"command": programs["command"]})
    resumed = st.fixed_dictionaries(role_fields, optional={"command": programs["command"], "args": st.just(["x"])})
    debug = st.fixed_dictionaries(
        {"enabled": st.just(True)}, optional={"replicaSpecs": st.lists(held, max_size=3, unique_by=_type)}
    )
    pause = (
        st.fixed_dictionaries({"enabled": st.booleans()})
        if len(kinds) > 1
        else optional(enabled=st.booleans(), resumeSpecs=st.lists(resumed, max_size=1))
    )
    return optional(debug=debug, pause=pause)


t9k_jobs = st.sampled_from([("Worker",), ("Chief", "Worker"), ("Chief", "Worker", "PS")]).flatmap(
    lambda kinds: st.fixed_dictionaries(
        {
            "apiVersion": st.just("batch.tensorstack.dev/v1beta1"),
            "kind": st.just("TensorFlowTrainingJob"),
            "metadata": metadata,
            "spec": st.fixed_dictionaries(
                {"replicaSpecs": st.tuples(*(_t9k_role(kind) for kind in reversed(kinds))).map(list)},
                optional={
                    "runPolicy": optional(
                        backoffLimit=limits,
                        activeDeadlineSeconds=seconds,
                        cleanUpPolicy=st.sampled_from(["None", "All", "Unfinished"]),
                    ),
                    "scheduler": st.fixed_dictionaries({"t9kScheduler": _queued}),
                    "tensorboardSpec": st.fixed_dictionaries(
                        {"image": st.just("t9k/tensorflow:1"), "trainingLogFilesets": st.just(["t9k://pvc/data/log"])},
                        optional={
                            "resources": st.just({"limits": {"cpu": 1}}),
                            "logDir": optional(
                                s3=st.just({"secretRef": {"name": "keys"}, "uri": ["s3://a/b"]}),
                                http=st.just({"url": ["http://files/logs"]}),
                            ),
                        },
                    ),
                    "runMode": _t9k_mode(kinds),
                },
            ),
        }
    )
)  # fmt: skip


def _with_restart(policy):
    return pods().map(lambda pod: {**pod, "spec": {**pod["spec"], "restartPolicy": policy}})


def _v1alpha1_role(kind, port):
    return st.fixed_dictionaries(
        {
            "tfReplicaType": st.just(kind),
            "tfPort": st.just(port),
            "template": st.sampled_from(["OnFailure", "Never"]).flatmap(_with_restart),
        },
        optional={"replicas": st.just(1) if kind == "MASTER" else st.integers(1, 4)},
    )


v1alpha1_jobs = st.tuples(
    st.sampled_from([("MASTER",), ("MASTER", "WORKER"), ("MASTER", "WORKER", "PS")]), st.sampled_from([2222, 3333])
).flatmap(
    lambda shape: st.fixed_dictionaries(
        {
            "apiVersion": st.sampled_from(["tensorflow.org/v1alpha1", "kubeflow.org/v1alpha1"]),
            "kind": st.just("TfJob"),
            "metadata": metadata.map(lambda meta: {**meta, "labels": {}}),
            "spec": st.fixed_dictionaries(
                {"replicaSpecs": st.tuples(*(_v1alpha1_role(kind, shape[1]) for kind in shape[0])).map(list)},
                optional={"RuntimeId": st.just("ab12"), "tfImage": st.just("tensorflow/tensorflow:1.3.0")},
            ),
        }
    )
)


def _replicated_job(name):
    alone = st.just(1) if name in ("chief", "evaluator") else st.integers(1, 4)

    def job(count):
        policy = st.sampled_from(["OnFailure", "Never"])
        spec = st.fixed_dictionaries(
            {
                "parallelism": st.just(count),
                "completions": st.just(count),
                "completionMode": st.just("Indexed"),
                "template": policy.flatmap(_with_restart),
            },
            optional={"backoffLimit": st.integers(0, 50), "activeDeadlineSeconds": seconds},
        )
        return st.fixed_dictionaries({"name": st.just(name), "template": st.fixed_dictionaries({"spec": spec})})

    return alone.flatmap(job)


jobsets = st.sampled_from([("worker",), ("chief", "worker"), ("chief", "worker", "ps", "evaluator")]).flatmap(
    lambda names: st.fixed_dictionaries(
        {
            "apiVersion": st.just("jobset.x-k8s.io/v1alpha2"),
            "kind": st.just("JobSet"),
            "metadata": metadata,
            "spec": st.fixed_dictionaries(
                {
                    "replicatedJobs": st.tuples(*(_replicated_job(name) for name in names)).map(list),
                    "successPolicy": st.sampled_from(
                        [{"operator": "All", "targetReplicatedJobs": targets} for targets in _targets(names)]
                    ),
                },
                optional={
                    "failurePolicy": st.fixed_dictionaries({"maxRestarts": st.integers(0, 10)}),
                    "ttlSecondsAfterFinished": seconds,
                    "suspend": st.booleans(),
                },
            ),
        }
    )
)


def _targets(names):
    trainers = [name for name in names if name in ("chief", "worker")]
    return [trainers, ["chief"]] if "chief" in names else [trainers]


trainjobs = st.fixed_dictionaries(
    {
        "apiVersion": st.just("trainer.kubeflow.org/v1alpha1"),
        "kind": st.just("TrainJob"),
        "metadata": metadata,
        "spec": st.fixed_dictionaries(
            {
                "runtimeRef": st.just({"name": "tensorflow-distributed", "kind": "ClusterTrainingRuntime"}),
                "trainer": st.fixed_dictionaries(
                    {"image": st.just("registry.example/a:1"), "command": st.lists(words, min_size=1, max_size=2)},
                    optional={
                        "numNodes": st.integers(1, 4),
                        "args": st.lists(words, max_size=2),
                        "env": st.lists(variables, max_size=3, unique_by=lambda item: item["name"]),
                        "resourcesPerNode": resources.filter(bool),
                    },
                ),
            },
            optional={"suspend": st.booleans(), "activeDeadlineSeconds": seconds},
        ),
    }
)


kinds = {"TFJob": tfjobs, "T9k": t9k_jobs, "TfJob v1alpha1": v1alpha1_jobs, "JobSet": jobsets, "TrainJob": trainjobs}
