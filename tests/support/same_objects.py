"""Job objects of people, and those that tfsteps renders for their imported jobs: when two are the same.

`DIFFERENCES` is the one list of what may differ. Each entry is a sentence and the function that takes the difference
out of a manifest of either side; whatever differs after all of them is a defect of the importer.
"""

import copy
import decimal
import json
import pathlib
import re

import msgspec

from tfsteps import spec
from tfsteps.imports.write import job_file
from tfsteps.runs.identity import Identity
from tfsteps.systems import registry
from tfsteps.systems.kubernetes.render.pod_template import CONTAINER

WEEK = 7 * 86_400
_NUMBER = re.compile(r"([0-9.]+)([A-Za-z]*)")
_UNITS = {"": 0, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}
_ROLES = ("chief", "worker", "ps", "evaluator")


def rendered(imported):
    """Return the job object of an imported job on the system that it came from, as `run --dry-run` prints it."""
    job = spec.parse(job_file(imported), "imported", registry.options())
    system = registry.get(imported.system, namespace="team")
    identity = Identity(run="r", task="t")
    paths = system.output_paths(job, identity, pathlib.Path("/"))
    objects = json.loads(msgspec.json.encode(system.plan(job, identity, paths)))
    return next(item for item in objects if item["kind"] not in ("Job", "PodGroup"))


def normal(manifest):
    """Return a manifest without what `DIFFERENCES` lists."""
    manifest = _without_null(copy.deepcopy(manifest))
    for remove in DIFFERENCES.values():
        remove(manifest)
    return _without_empty(manifest)


def pods(manifest):
    """Yield the pod templates of a manifest."""
    body = manifest["spec"]
    for replica in [*body.get("tfReplicaSpecs", {}).values(), *body.get("replicaSpecs", [])]:
        if "template" in replica:
            yield replica["template"]
    for job in body.get("replicatedJobs", []):
        yield job["template"]["spec"]["template"]


def containers(manifest):
    if manifest["kind"] == "TrainJob":
        yield manifest["spec"]["trainer"]
    for pod in pods(manifest):
        yield from pod["spec"]["containers"]


# --- of all kinds


def _names(manifest):
    meta = manifest["metadata"]
    for key in ("name", "generateName", "namespace"):
        meta.pop(key, None)


def _labels(manifest):
    for meta in (manifest["metadata"], *(pod.setdefault("metadata", {}) for pod in pods(manifest))):
        for field in ("labels", "annotations"):
            shared = {} if meta is manifest["metadata"] else manifest["metadata"].get(field, {})
            meta[field] = {
                key: value
                for key, value in meta.get(field, {}).items()
                if not key.startswith(("tfsteps.dev/", "app.kubernetes.io/managed-by", "scheduling.x-k8s.io/pod-group"))
                and (key, value) not in shared.items()
                and (key, value) != ("sidecar.istio.io/inject", "false")
            }


def _variables(manifest):
    for container in containers(manifest):
        ours = re.compile(r"TF_CONFIG|TFSTEPS_.*|PYTHONUNBUFFERED")
        container["env"] = [item for item in container.get("env", []) if not ours.fullmatch(str(item["name"]))]
        container["env"] = sorted(container["env"], key=lambda item: item["name"])
        for item in container["env"]:
            if item.get("value") == "":
                del item["value"]
            item.get("valueFrom", {}).get("fieldRef", {}).pop("apiVersion", None)


def _commands(manifest):
    for container in containers(manifest):
        container["command"] = _unwrapped(container.get("command", []))


def _unwrapped(command):
    if command[:2] == ["sh", "-c"] and command[3:4] == ["tfsteps"]:
        return command[4:]
    return command[2:] if command[:2] == ["env", "TF_CONFIG=$(TFSTEPS_TF_CONFIG)"] else command


def _container_name(manifest):
    for pod in pods(manifest):
        listed = pod["spec"]["containers"]
        trains = next((item for item in listed if item["name"] == CONTAINER), listed[0])
        trains["name"] = CONTAINER
        pod["spec"]["containers"] = [trains, *(item for item in listed if item is not trains)]
        if trains.get("ports") == [{"containerPort": 2222, "name": "tfjob-port"}]:
            del trains["ports"]


def _volumes(manifest):
    for pod in pods(manifest):
        sources = {item["name"]: item for item in pod["spec"].get("volumes", [])}
        every = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]
        uses = [(mount["name"], mount) for container in every for mount in container.get("volumeMounts", [])]
        number = {name: sum(name == used for used, _ in uses) for name in sources}
        for name, mount in uses:
            source = sources[name]
            source = copy.deepcopy(source)
            claim = source.get("persistentVolumeClaim", {})
            if claim.get("readOnly") or (claim and mount.get("readOnly")):
                mount["readOnly"] = claim["readOnly"] = True
            plain = {key: value for key, value in source.items() if key != "name"}
            plain.get("hostPath", {}).pop("type", None) if plain.get("hostPath", {}).get("type") == "" else None
            if "emptyDir" in plain and number[name] > 1:
                plain["shared as"] = name
            mount["name"] = json.dumps(_amounts(plain), sort_keys=True)
            if not mount.get("readOnly"):
                mount.pop("readOnly", None)
        for container in every:
            container["volumeMounts"] = sorted(container.get("volumeMounts", []), key=lambda item: item["mountPath"])
        pod["spec"]["volumes"] = sorted(
            (item for name, item in sources.items() if not number[name]), key=lambda item: item["name"]
        )


def _resources(manifest):
    for container in containers(manifest):
        parts = container.get("resources", {})
        limits, requests = parts.get("limits", {}), parts.get("requests", {})
        container["resources"] = _amounts({**parts, "limits": limits, "requests": {**limits, **requests}})


def _amounts(value):
    if isinstance(value, dict):
        return {key: _amounts(item) for key, item in value.items()}
    match = _NUMBER.fullmatch(str(value))
    if not match or match[2] not in _UNITS:
        return value
    unit = _UNITS[match[2]]
    factor = decimal.Decimal(2) ** unit if match[2].endswith("i") else decimal.Decimal(10) ** unit
    return str((decimal.Decimal(match[1]) * factor).normalize())


def _tolerations(manifest):
    for pod in pods(manifest):
        for item in pod["spec"].get("tolerations", []):
            item.setdefault("operator", "Equal")
            if item.get("value") == "":
                del item["value"]


def _deadline(manifest):
    body = manifest["spec"]
    if "tfReplicaSpecs" in body or manifest["kind"] == "TensorFlowTrainingJob":
        body.setdefault("runPolicy", {}).setdefault("activeDeadlineSeconds", WEEK)
    limits = [job["template"]["spec"].pop("activeDeadlineSeconds", None) for job in body.get("replicatedJobs", [])]
    if limits:
        body["activeDeadlineSeconds"] = min((limit for limit in limits if limit), default=WEEK)


# --- TFJob


def _tfjob(manifest):
    body = manifest["spec"]
    if manifest["kind"] != "TFJob" or "tfReplicaSpecs" not in body:
        return
    if manifest["apiVersion"] != "kubeflow.org/v1":
        manifest["apiVersion"] = "kubeflow.org/v1"
        names = ("activeDeadlineSeconds", "backoffLimit", "cleanPodPolicy", "ttlSecondsAfterFinished")
        body["runPolicy"] = {name: body.pop(name) for name in names if name in body}
    types = {"master": "Chief", "chief": "Chief", "worker": "Worker", "ps": "PS", "evaluator": "Evaluator"}
    body["tfReplicaSpecs"] = {
        types[kind.lower()]: replica
        for kind, replica in body["tfReplicaSpecs"].items()
        if replica.get("replicas", 1) != 0
    }
    policy = body.setdefault("runPolicy", {})
    for name in (*policy, "cleanPodPolicy"):
        body.pop(name, None)
    policy.pop("cleanPodPolicy", None)
    if policy.get("ttlSecondsAfterFinished") == 0:
        del policy["ttlSecondsAfterFinished"]
    policy.get("schedulingPolicy", {}).pop("minResources", None)
    for replica in body["tfReplicaSpecs"].values():
        replica.setdefault("replicas", 1)
        replica.setdefault("restartPolicy", "Never")
        replica["template"]["spec"].pop("restartPolicy", None)
    if policy.get("schedulingPolicy"):  # the operator's default
        total = sum(replica["replicas"] for replica in body["tfReplicaSpecs"].values())
        policy["schedulingPolicy"].setdefault("minAvailable", total)
    if all(replica["restartPolicy"] == "Never" for replica in body["tfReplicaSpecs"].values()):
        policy.pop("backoffLimit", None)
    else:
        policy["backoffLimit"] = max(policy.get("backoffLimit", 10_001), 1)


# --- T9k


def _t9k(manifest):
    body = manifest["spec"]
    if manifest["kind"] != "TensorFlowTrainingJob":
        return
    body["replicaSpecs"].sort(key=lambda item: _ROLES.index(item["type"]))
    programs = {}
    for replica in body["replicaSpecs"]:
        replica.setdefault("replicas", 1)
        replica.setdefault("restartPolicy", "Never")
        replica["template"]["spec"].pop("restartPolicy", None)
        container = next(item for item in replica["template"]["spec"]["containers"] if item["name"] == CONTAINER)
        programs[replica["type"]] = (container.get("command", []), container.get("args", []))
    policy = body.setdefault("runPolicy", {})
    policy.setdefault("cleanUpPolicy", "Unfinished")
    if all(replica["restartPolicy"] == "Never" for replica in body["replicaSpecs"]):
        policy.pop("backoffLimit", None)
    policy.setdefault("backoffLimit", 10_000)
    scheduler = body.get("scheduler", {}).get("t9kScheduler", {})
    if scheduler:
        scheduler.setdefault("priority", 0)
    board = body.get("tensorboardSpec", {})
    for claim in board.get("logDir", {}).pop("pvc", []):
        folders = claim.get("subPath") or [""]
        board.setdefault("trainingLogFilesets", []).extend(f"t9k://pvc/{claim['name']}/{path}" for path in folders)
    mode = body.get("runMode", {})
    debug, pause = mode.get("debug", {}), mode.get("pause", {})
    for held in debug.get("replicaSpecs", []):
        held.setdefault("skipInitContainer", False)
    for resumed in pause.get("resumeSpecs", []):
        command, args = programs[resumed["type"]]
        resumed["command"] = _unwrapped(resumed.get("command") or command)
        resumed.setdefault("args", args)
    pause["resumeSpecs"] = [
        resumed
        for resumed in pause.get("resumeSpecs", [])
        if (resumed["command"], resumed["args"]) != programs[resumed["type"]] or resumed.get("skipInitContainer")
    ]


# --- TfJob v1alpha1


def _v1alpha1(manifest):
    body = manifest["spec"]
    if not manifest["apiVersion"].endswith("/v1alpha1") or "replicaSpecs" not in body:
        return
    manifest["kind"] = "TfJob"
    types = {"MASTER": 0, "WORKER": 1, "PS": 2}
    body.pop("RuntimeId", None)
    body.pop("tfImage", None)
    body.setdefault("terminationPolicy", {"chief": {"replicaName": "MASTER", "replicaIndex": 0}})
    for replica in body["replicaSpecs"]:
        replica.setdefault("tfReplicaType", "MASTER")
        replica.setdefault("replicas", 1)
        replica.setdefault("tfPort", 2222)
        replica.pop("IsDefaultPS", None)
        if template := replica.get("template"):
            policy = template["spec"].get("restartPolicy", "OnFailure")
            template["spec"]["restartPolicy"] = "Never" if policy == "Never" else "OnFailure"
    body["replicaSpecs"].sort(key=lambda item: types[item["tfReplicaType"]])
    board = body.get("tensorboard", {})
    for key in ("volumes", "volumeMounts"):
        board.pop(key, None)
    if board:
        board.setdefault("serviceType", "ClusterIP")


# --- JobSet


def _jobset(manifest):
    body = manifest["spec"]
    if manifest["kind"] != "JobSet":
        return
    roles = {"leader": "chief", "workers": "worker", "master": "chief"}
    alone = len(body["replicatedJobs"]) == 1
    names = {}
    for job in body["replicatedJobs"]:
        name = roles.get(job["name"], job["name"])
        names[job["name"]] = job["name"] = name if name in _ROLES or not alone else "worker"
        job["template"]["spec"]["parallelism"] = job["template"]["spec"].get("parallelism", 1) * job.pop("replicas", 1)
        _inner_job(job["template"]["spec"])
    body["replicatedJobs"].sort(key=lambda item: _ROLES.index(item["name"]))
    body.pop("network", None)
    policy = body.pop("successPolicy", {})
    targets = [names.get(name, name) for name in policy.get("targetReplicatedJobs") or names.values()]
    body["success"] = sorted(set(targets))
    body["failurePolicy"] = {"maxRestarts": body.get("failurePolicy", {}).get("maxRestarts", 0)}
    if body["failurePolicy"]["maxRestarts"]:
        for job in body["replicatedJobs"]:
            job["template"]["spec"].pop("backoffLimit")
            job["template"]["spec"]["template"]["spec"].pop("restartPolicy")
    if not body.get("suspend"):
        body.pop("suspend", None)


def _inner_job(inner):
    for key in ("completions", "completionMode", "podReplacementPolicy"):
        inner.pop(key, None)
    policy = inner["template"]["spec"].get("restartPolicy", "OnFailure")
    limit = inner.get("backoffLimit", 6)
    if limit == 0:
        policy = "Never"
    if policy == "Never" and limit and "podFailurePolicy" not in inner:
        policy, limit = "OnFailure", limit + 1
    inner["template"]["spec"]["restartPolicy"], inner["backoffLimit"] = policy, limit
    if inner.pop("podFailurePolicy", None) and limit:
        inner["exit codes"] = "1 to 127 are final"
    if inner["parallelism"] == 1:
        inner.pop("successPolicy", None)


# --- TrainJob


def _trainjob(manifest):
    body = manifest["spec"]
    if manifest["kind"] != "TrainJob":
        return
    for field in ("runtimeRef", "runtimePatches", "activeDeadlineSeconds"):
        body.pop(field, None)
    trainer = body["trainer"]
    trainer["args"] = [*trainer.pop("command", []), *trainer.get("args", [])]
    trainer["resources"] = trainer.pop("resourcesPerNode", {})
    trainer.setdefault("numNodes", 1)


DIFFERENCES = {
    "TrainJob: a runtime of tfsteps, which runs the program as arguments; the deadline is the launcher's.": _trainjob,
    "The name has a hash at its end, and the namespace is that of the command.": _names,
    "tfsteps adds labels of its own, also for a PodGroup, and has those of the job on the pods; Istio is off.": _labels,
    "tfsteps sets TF_CONFIG, TFSTEPS_* and PYTHONUNBUFFERED; variables may be in another order.": _variables,
    "A wrapper corrects TF_CONFIG, or sets the index, where the operator does not.": _commands,
    "The container that trains is the first, and called tensorflow; its usual port is not written.": _container_name,
    "Volumes have other names; two mounts are two volumes; a claim mounted read-only is so as a whole.": _volumes,
    "Amounts are in other units; a limit alone is the request too, as Kubernetes has it.": _resources,
    "The operator of a toleration is written.": _tolerations,
    "TFJob: older versions as v1, Master as Chief, defaults written, cleanPodPolicy of the launcher.": _tfjob,
    "T9k: defaults written, logDir as file sets, what a role runs after a pause written out.": _t9k,
    "TfJob: RuntimeId and tfImage are those of tfsteps, defaults written, TensorBoard mounts as the MASTER.": _v1alpha1,
    "JobSet: one Job a role, restarts in place, or of all together; failure rules only name the reason.": _jobset,
    "Without a deadline, 7 days; the shortest of several.": _deadline,
}


def _without_null(value):
    if isinstance(value, dict):
        return {key: _without_null(item) for key, item in value.items() if item is not None}
    return [_without_null(item) for item in value] if isinstance(value, list) else value


def _without_empty(value):
    if isinstance(value, dict):
        cleaned = {key: _without_empty(item) for key, item in value.items()}
        return {key: item for key, item in cleaned.items() if item not in ({}, [], None, False)}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value
