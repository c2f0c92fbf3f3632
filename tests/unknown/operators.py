"""The controllers of job objects: they run pods that print a line and wait, until the scenario ends them."""

import time

from tests.unknown.cluster import Cluster

_INDEX = "batch.kubernetes.io/job-completion-index"


class Operator:
    """Acts on the job objects of one system.

    Attributes:
        plural: Of the job objects.
        results: Of jobs that have ended by themselves, by uid: `succeeded`, `failed`.
    """

    plural = ""

    def __init__(self, cluster: Cluster):
        self.cluster = cluster
        self.results: dict[str, str] = {}
        cluster.on_change = self._changed

    def jobs(self):
        """Return the job objects, the oldest first."""
        return self.cluster.all(self.plural)

    def ever(self, task):
        """Return all jobs of a task that are or were there."""
        gone = [job for _, plural, job in self.cluster.deleted if plural == self.plural]
        return [job for job in [*gone, *self.jobs()] if _launcher(job) == task]

    def stopped_by(self):
        """Return (actor, job) of each job that was deleted; the actor is empty if that was no client."""
        return [(actor, job) for actor, plural, job in self.cluster.deleted if plural == self.plural and _launcher(job)]

    def owned(self, job):
        """Tell whether a job goes with its Workflow, or with what keeps it."""
        owners = job["metadata"].get("ownerReferences") or []
        return any(owner["kind"] in ("Workflow", "Job") for owner in owners)

    def pods(self, job):
        return [pod for pod in self.cluster.all("pods") if pod["metadata"].get("job") == job["metadata"]["uid"]]

    def end(self, job, result):
        """Let a job's program end."""
        if job["metadata"]["uid"] in self.results:
            return
        self.results[job["metadata"]["uid"]] = result
        for pod in self.pods(job):
            self.cluster.say(pod["metadata"]["uid"], f"it {result}")
            code = 0 if result == "succeeded" else 1
            ended = {
                "exitCode": code,
                "reason": "Completed" if code == 0 else "Error",
                "startedAt": _now(),
                "finishedAt": _now(),
            }
            status = {"phase": result.capitalize(), "containerStatuses": [_container({"terminated": ended})]}
            self.cluster.patch("pods", pod["metadata"]["name"], {"status": status})
            self.cluster.end_log(pod["metadata"]["uid"])
        self._mark(job, result)

    def run(self, owner, labels, job, name):
        """Let a pod run that `owner` controls, for `job`."""
        reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
        reference |= {"uid": owner["metadata"]["uid"], "controller": True}
        meta = {"name": name, "labels": labels, "ownerReferences": [reference], "job": job["metadata"]["uid"]}
        spec = {"nodeName": "n", "containers": [{"name": "tensorflow", "image": "i"}]}
        status = {"phase": "Running", "containerStatuses": [_container({"running": {"startedAt": _now()}})]}
        pod = self.cluster.put("pods", {"metadata": meta, "spec": spec, "status": status})
        self.cluster.say(pod["metadata"]["uid"], "it runs")

    def _changed(self, plural, item, actor):
        if actor and plural == self.plural and not self.pods(item) and not self._suspended(item):
            self._start(item)

    def _suspended(self, item):
        return item["spec"].get("suspend")

    def _start(self, job):
        raise NotImplementedError

    def _mark(self, job, result):
        kind = {"succeeded": "Succeeded", "failed": "Failed"}[result]
        self._condition(job, kind)

    def _condition(self, job, *kinds):
        """Let conditions of an object hold."""
        name = job["metadata"]["name"]
        held = {"status": "True", "reason": "AsTheStoryWantsIt", "message": "", "lastTransitionTime": _now()}
        if (self.plural, name) in self.cluster.objects:
            self.cluster.patch(
                self.plural, name, {"status": {"conditions": [{"type": kind, **held} for kind in kinds]}}
            )


class TFJobs(Operator):
    """The training operator."""

    plural = "tfjobs"

    def _start(self, job):
        name = job["metadata"]["name"]
        label = "training.kubeflow.org/"
        for role, spec in job["spec"]["tfReplicaSpecs"].items():
            for index in range(spec["replicas"]):
                pod_labels = {
                    f"{label}job-name": name,
                    f"{label}replica-type": role.lower(),
                    f"{label}replica-index": str(index),
                }
                labels = {**spec["template"]["metadata"]["labels"], **pod_labels}
                self.run(job, labels, job, f"{name}-{role.lower()}-{index}")
        self._condition(job, "Created", "Running")

    def _suspended(self, item):
        return item["spec"]["runPolicy"].get("suspend")


class Jobs(Operator):
    """The Job controller of Kubernetes, and the dependents that a launcher makes."""

    plural = "jobs"

    def jobs(self):
        return [job for job in super().jobs() if "tfsteps.dev/job" in (job["metadata"].get("labels") or {})
                and job["metadata"]["labels"]["tfsteps.dev/job"] == job["metadata"]["name"]]  # fmt: skip

    def pods(self, job):
        uids = {job["metadata"]["uid"], *(part["metadata"]["uid"] for part in self._parts(job))}
        return [pod for pod in self.cluster.all("pods") if pod["metadata"].get("job") in uids]

    def _parts(self, job):
        return [item for item in self.cluster.all("jobs") if job["metadata"]["uid"] in
                [owner["uid"] for owner in item["metadata"].get("ownerReferences") or []]]  # fmt: skip

    def _start(self, job):
        if job["spec"].get("parallelism") == 0:  # a keeper
            return
        self.start_part(job, job)

    def start_part(self, part, job):
        name, template = part["metadata"]["name"], part["spec"]["template"]
        for index in range(part["spec"]["completions"]):
            labels = {**template["metadata"]["labels"], _INDEX: str(index)}
            self.run(part, labels, job, f"{name}-{index}-abcde")
        self.cluster.patch("jobs", name, {"status": {"startTime": _now(), "active": part["spec"]["completions"]}})

    def _mark(self, job, result):
        for item in (job, *self._parts(job)):
            kinds = ("SuccessCriteriaMet", "Complete") if result == "succeeded" else ("FailureTarget", "Failed")
            self._condition(item, *kinds)


class JobSets(Jobs):
    """The JobSet controller."""

    plural = "jobsets"

    def jobs(self):
        return Operator.jobs(self)

    def _start(self, job):
        name = job["metadata"]["name"]
        owner = {
            "apiVersion": job["apiVersion"],
            "kind": "JobSet",
            "name": name,
            "uid": job["metadata"]["uid"],
            "controller": True,
        }
        for replicatedjob in job["spec"]["replicatedJobs"]:
            labels = {"jobset.sigs.k8s.io/jobset-name": name, "jobset.sigs.k8s.io/jobset-uid": job["metadata"]["uid"]}
            spec = replicatedjob["template"]["spec"]
            template = {
                **spec["template"],
                "metadata": {"labels": {**spec["template"]["metadata"]["labels"], **labels}},
            }
            meta = {"name": f"{name}-{replicatedjob['name']}-0", "labels": labels, "ownerReferences": [owner]}
            part = self.cluster.put("jobs", {"metadata": meta, "spec": {**spec, "template": template}})
            self.start_part(part, job)

    def _mark(self, job, result):
        self._condition(job, "Completed" if result == "succeeded" else "Failed")


def _launcher(job):
    return (job["metadata"].get("annotations") or {}).get("tfsteps.dev/launcher", "")


def _container(state):
    return {"name": "tensorflow", "restartCount": 0, "image": "i", "imageID": "i", "ready": True, "state": state}


def _now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


OPERATORS = {"kubeflow": TFJobs, "jobset": JobSets, "jobs": Jobs}
