"""What a manifest becomes: fields, comments, notes, and refusals."""

import pytest
import yaml

from tests.support.same_objects import rendered
from tfsteps import spec
from tfsteps.imports.read import read_text
from tfsteps.imports.write import job_file
from tfsteps.systems import registry
from tfsteps.systems.manifest.fields import NotUnderstoodError

TFJOB = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: flat, namespace: team}
spec:
  runPolicy: {cleanPodPolicy: None, backoffLimit: 3, ttlSecondsAfterFinished: 3600}
  tfReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: OnFailure
      template:
        spec:
          containers:
          - name: tensorflow
            image: registry.example/team/flat:1
            command: [python, train.py, --model-dir=$(MODEL_DIR)]
            env:
            - {name: MODEL_DIR, value: /data/model}
            - {name: TOKEN, valueFrom: {secretKeyRef: {name: hub, key: token}}}
            resources: {limits: {nvidia.com/gpu: 1}}
            volumeMounts: [{name: d, mountPath: /data}]
          volumes: [{name: d, persistentVolumeClaim: {claimName: training}}]
"""
JOB_FILE = """\
# TFJob flat (kubeflow.org/v1), imported by tfsteps
name: flat
image: registry.example/team/flat:1
command: [python, train.py, --model-dir=$(MODEL_DIR)]
env:
  MODEL_DIR: /data/model
  TOKEN: {secret: hub, key: token}
roles:
  worker: {replicas: 2}
resources: {gpu: 1}
volumes:
- {pvc: training, mount: /data}
restart: on_failure
# the operator ends the job when backoffLimit is reached, tfsteps when this is passed
backoff_limit: 2
on_end: keep
keep_for: 1h
"""


def imported(text, **changes):
    [job], _ = read_text(text, **changes)
    spec.parse(job_file(job), "job", registry.options())
    return job


def tfjob(roles, **more):
    """Return the text of a TFJob with roles {type: changes of its replica spec}."""
    item = yaml.safe_load(TFJOB)
    body = item["spec"]
    [worker] = body.pop("tfReplicaSpecs").values()
    body |= {"tfReplicaSpecs": {kind: {**worker, **changes} for kind, changes in roles.items()}, **more}
    return yaml.safe_dump(item)


def container(**fields):
    return {"spec": {"containers": [{"name": "tensorflow", "image": "a", "command": ["b"], **fields}]}}


def refusal(text):
    with pytest.raises(NotUnderstoodError) as caught:
        read_text(text)
    return str(caught.value)


def test_a_job_file():
    assert job_file(imported(TFJOB)) == JOB_FILE


def test_nothing_is_lost_without_a_word():
    text = tfjob({"Worker": {"novel": 1}}, successPolicy="", future={"deep": [1, 2]})
    notes = imported(text).notes
    assert "spec.tfReplicaSpecs.Worker.novel = 1: a job file has no field for it" in notes
    assert "spec.future.deep = a list: a job file has no field for it" in notes
    assert any(note.startswith("metadata.namespace = 'team': ") for note in notes)


def test_what_the_server_writes_is_no_news():
    item = yaml.safe_load(TFJOB)
    item["metadata"] |= {"uid": "1", "resourceVersion": "2", "managedFields": [{"manager": "x"}]}
    item["status"] = {"conditions": [{"type": "Running"}]}
    item["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    assert job_file(imported(yaml.safe_dump(item))) == JOB_FILE


def test_an_empty_command_is_none():
    job = imported(tfjob({"Worker": {"template": container(command=[], args=[], workingDir="")}})).job
    assert not {"command", "args", "working_dir", "pod"} & job.keys()


def test_a_request_without_a_limit_stays_without_one():
    job = imported(tfjob({"Worker": {"template": container(resources={"requests": {"memory": "1Gi"}})}})).job
    assert "resources" not in job
    [patched] = job["pod"]["spec"]["containers"]
    assert patched == {"name": "tensorflow", "resources": {"requests": {"memory": "1Gi"}}}


def test_a_variable_stays_behind_the_one_that_it_refers_to():
    env = [
        {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "THREADS", "value": "$(CPUS)"},
        {"name": "A", "value": "1"},
    ]
    job = imported(tfjob({"Worker": {"template": container(env=env)}})).job
    assert job["env"] == {"A": "1"}
    assert [item["name"] for item in job["pod"]["spec"]["containers"][0]["env"]] == ["CPUS", "THREADS"]


@pytest.mark.parametrize(("limit", "ours"), [(0, 0), (1, 0), (5, 4), (None, 10_000)])
def test_a_limit_that_is_reached_and_one_that_is_passed(limit, ours):
    text = tfjob({"Worker": {}}, runPolicy={} if limit is None else {"backoffLimit": limit})
    assert imported(text).job["backoff_limit"] == ours


def test_a_policy_at_the_wrong_level_had_no_effect():
    job = imported(tfjob({"Worker": {}}, cleanPodPolicy="All", runPolicy={"backoffLimit": 2}))
    assert "on_end" not in job.job
    assert "spec.cleanPodPolicy = All: had no effect; a TFJob of v1 has it below spec.runPolicy" in job.notes


def test_before_v1_it_is_the_right_level():
    text = tfjob({"Worker": {}}, cleanPodPolicy="All", runPolicy=None).replace(
        "kubeflow.org/v1", "kubeflow.org/v1beta2"
    )
    assert imported(text).job["on_end"] == "delete_pods"


def test_a_master_is_a_chief():
    text = job_file(imported(tfjob({"Master": {"replicas": 1}, "Worker": {}})))
    assert "  # was Master: TF_CONFIG calls it chief now, for TensorFlow 2 refuses the name master\n  chief: {}" in text


def test_parameter_servers_without_a_chief_are_tensorflow_1s():
    assert imported(tfjob({"PS": {}, "Worker": {}})).job["strategy"] == "between_graph"


def test_volumes_of_an_init_container_stay_whole():
    template = container(volumeMounts=[{"name": "d", "mountPath": "/data"}])
    template["spec"]["volumes"] = [{"name": "d", "persistentVolumeClaim": {"claimName": "training"}}]
    template["spec"]["initContainers"] = [
        {"name": "load", "image": "x", "volumeMounts": [{"name": "d", "mountPath": "/in"}]}
    ]
    job = imported(tfjob({"Worker": {"template": template}})).job
    assert "volumes" not in job
    assert {"volumes", "initContainers", "containers"} <= set(job["pod"]["spec"])


def test_several_documents():
    jobs, notes = read_text(f"apiVersion: v1\nkind: Service\nmetadata: {{name: s}}\n---\n{TFJOB}\n---\n{TFJOB}")
    assert [job.job["name"] for job in jobs] == ["flat", "flat"]
    assert notes == ["Service s (v1) is no job, and is left as it is"]


def test_a_list():
    text = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(TFJOB)]})
    assert job_file(imported(text)) == JOB_FILE


def test_a_job_of_tfsteps_has_its_job_file_with_it():
    job = '{"name": "mnist", "command": ["python"], "roles": {"worker": {}}, "deadlines": {"total": 3600.0}}'
    item = yaml.safe_load(TFJOB)
    item["metadata"]["annotations"] = {"tfsteps.dev/job": job}
    assert imported(yaml.safe_dump(item)).job["deadlines"] == {"total": "1h"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no job that can be imported, but nothing: write or name a TFJob, "),
        ("a: [", "is not YAML"),
        ("kind: Service\napiVersion: v1", "but Service (v1)"),
        (TFJOB.replace("tfReplicaSpecs:\n    Worker:", "tfReplicaSpecs:\n    Boss:"), "Boss is no replica type"),
        (TFJOB.replace("replicas: 2", "replicas: two"), "Worker.replicas is 'two', expected a whole number"),
        (TFJOB.replace("name: tensorflow", "name: main"), "has main, and no container `tensorflow`"),
        (TFJOB.replace("OnFailure", "Sometimes"), "restartPolicy = 'Sometimes': expected Never, OnFailure"),
        (tfjob({}), "spec.tfReplicaSpecs is missing or empty: expected a role with at least 1 replica; add one"),
        (
            TFJOB.replace("replicas: 2", "replicas: 0"),
            "spec.tfReplicaSpecs.Worker.replicas is 0, expected at least 1 replica of one role; raise the number",
        ),
        (
            TFJOB.replace("replicas: 2", "replicas: -1"),
            "spec.tfReplicaSpecs.Worker.replicas is -1, expected a whole number from 0 up; correct it",
        ),
    ],
)
def test_what_is_not_understood_is_one_sentence(text, words):
    message = refusal(text)
    assert words in message
    assert "\n" not in message


T9K = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: TensorFlowTrainingJob
metadata: {name: t9k}
spec:
  replicaSpecs:
  - type: worker
    replicas: 4
    restartPolicy: ExitCode
    template: {spec: {containers: [{name: tensorflow, image: a, command: [b]}]}}
  runPolicy: {cleanUpPolicy: All, backoffLimit: 5}
  scheduler: {t9kScheduler: {queue: default, priority: 50}}
  tensorboardSpec: {image: board, logDir: {pvc: [{name: data, subPath: [logs]}], s3: {uri: ["s3://a/b"]}, http: {url: ["http://c"]}}}
  runMode:
    debug: {enabled: true, replicaSpecs: [{type: worker, skipInitContainer: true, command: [/usr/bin/sshd]}]}
"""


def test_a_training_job_of_t9k():
    job = imported(T9K)
    assert job.job == {
        "name": "t9k",
        "image": "a",
        "command": ["b"],
        "roles": {"worker": {"replicas": 4}},
        "restart": "exit_code",
        "backoff_limit": 5,
        "tensorboard": {"image": "board"},
        "on_end": "delete_pods",
        "queue": "default",
        "priority": 50,
        "systems": {
            "t9k": {
                "clean_up": "all",
                "tensorboard_file_sets": ["t9k://pvc/data/logs"],
                "tensorboard_s3": {"uris": ["s3://a/b"]},
                "tensorboard_urls": ["http://c"],
                "debug": True,
                "debug_commands": {"worker": ["/usr/bin/sshd"]},
                "debug_skip_init_containers": True,
            }
        },
    }
    assert not any("logDir" in note for note in job.notes)


V1ALPHA1 = """
apiVersion: tensorflow.org/v1alpha1
kind: TfJob
metadata: {name: example-job}
spec:
  tfImage: tensorflow/tensorflow:1.3.0
  replicaSpecs:
  - {replicas: 1, tfReplicaType: MASTER, template: &pod {spec: {restartPolicy: OnFailure, containers: [
      {name: tensorflow, image: a, command: [b]}]}}}
  - {replicas: 2, tfReplicaType: WORKER, template: *pod}
  - {replicas: 2, tfReplicaType: PS}
  tensorboard: {logDir: gs://bucket/logs, serviceType: LoadBalancer}
"""


def test_a_tfjob_of_2017():
    job = imported(V1ALPHA1).job
    assert job["roles"] == {
        "chief": {"restart": "exit_code"},
        "worker": {"replicas": 2, "restart": "on_failure"},
        "ps": {"replicas": 2},
    }
    assert (job["output_dir"], job["outputs"], job["tensorboard"]) == ("gs://bucket/logs", {"logs": "."}, {})
    assert job["systems"]["tfjob-v1alpha1"] == {
        "default_ps": True,
        "tf_config": "operator",
        "tf_image": "tensorflow/tensorflow:1.3.0",
        "tensorboard_service": "LoadBalancer",
    }


def test_a_master_with_default_parameter_servers_alone():
    document = yaml.safe_load(V1ALPHA1)
    replicas = document["spec"]["replicaSpecs"]
    document["spec"]["replicaSpecs"] = [item for item in replicas if item.get("tfReplicaType") != "WORKER"]
    job = imported(yaml.safe_dump(document))
    assert set(job.job["roles"]) == {"chief", "ps"}
    assert job.job["strategy"] == "between_graph"
    assert job.job["systems"]["tfjob-v1alpha1"]["tf_config"] == "operator"
    spec.parse(job_file(job), "job", registry.options())


def test_a_job_file_is_one_already():
    assert "is a job file already: run it with `tfsteps run`" in refusal("name: a\nroles: {worker: {}}\n")
    assert "is a command line, not a job" in refusal("HF_ENV_NAME=a hai-cli python train.py -- -n 2\n")


def test_a_key_that_the_operator_does_not_read():
    text = V1ALPHA1.replace("replicaSpecs", "replica_specs")
    job = imported(text)
    assert job.job == imported(V1ALPHA1).job
    assert any(note.startswith("spec.replica_specs: the operator reads only replicaSpecs") for note in job.notes)
    assert "remove the second" in refusal(f"{text}  replicaSpecs: [{{tfReplicaType: PS}}]\n")


def test_a_board_with_volumes_of_its_own():
    volumes = "volumes: [{name: d, hostPath: {path: /d}}], volumeMounts: [{name: d, mountPath: /d}]"
    notes = imported(V1ALPHA1.replace("serviceType: LoadBalancer", volumes)).notes
    assert [note for note in notes if "tensorboard" in note] == [
        "spec.tensorboard.volumes: the TensorBoard mounts what the replica that decides mounts"
    ]


JOBSET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: js, labels: {kueue.x-k8s.io/queue-name: gpus}}
spec:
  failurePolicy: {maxRestarts: 3}
  replicatedJobs:
  - name: workers
    replicas: 1
    template:
      spec:
        parallelism: 4
        completions: 4
        backoffLimit: 0
        template: {spec: {restartPolicy: Never, containers: [{name: main, image: a, command: [b]}]}}
"""


def test_a_jobset():
    assert imported(JOBSET).job == {
        "name": "js",
        "image": "a",
        "command": ["b"],
        "roles": {"worker": {"replicas": 4}},
        "restart": "on_failure",
        "backoff_limit": 3,
        "success": "all_workers",
        "queue": "gpus",
        "systems": {"jobset": {"restart_together": True}},
    }


def test_a_jobset_of_something_else():
    driver = JOBSET + JOBSET.partition("replicatedJobs:\n")[2].replace("workers", "driver")
    assert "'driver' is no role of TensorFlow's" in refusal(driver)


def test_a_trainjob():
    text = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: tj}
spec:
  runtimeRef: {name: tensorflow-distributed}
  trainer: {numNodes: 3, image: a, command: [b], numProcPerNode: 2, resourcesPerNode: {limits: {cpu: 2}}}
"""
    job = imported(text)
    assert job.job["roles"] == {"worker": {"replicas": 3}}
    assert job.job["resources"] == {"cpu": 2}
    assert any("was not read" in note for note in job.notes)
    assert "spec.trainer.numProcPerNode = 2: a job file has no field for it" in job.notes


def test_a_volume_that_stays_keeps_its_name_to_itself():
    mounts = [{"name": "data", "mountPath": "/data"}, {"name": "volume-0", "mountPath": "/share"}]
    template = container(volumeMounts=mounts)
    template["spec"]["volumes"] = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "training"}},
        {"name": "volume-0", "azureFile": {"secretName": "keys", "shareName": "data"}},
    ]
    job = imported(tfjob({"Worker": {"template": template}})).job
    assert "volumes" not in job, "the first of a job's volumes is rendered as volume-0"
    assert job["pod"]["spec"]["volumes"] == template["spec"]["volumes"]


def test_two_mounts_of_a_volume_that_stays_are_not_merged_into_one():
    mounts = [
        {"name": "data", "mountPath": "/data"},
        {"name": "scratch", "mountPath": "/a"},
        {"name": "scratch", "mountPath": "/b"},
    ]
    template = container(volumeMounts=mounts)
    template["spec"]["volumes"] = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "training"}},
        {"name": "scratch", "emptyDir": {}},
    ]
    job = imported(tfjob({"Worker": {"template": template}}))
    assert job.job["volumes"] == [{"pvc": "training", "mount": "/data"}]
    assert job.job["pod"]["spec"]["containers"][0]["volumeMounts"] == mounts[1:]
    pod = rendered(job)["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    claim = next(volume["name"] for volume in pod["volumes"] if "persistentVolumeClaim" in volume)
    mount_pairs = [(mount["name"], mount["mountPath"]) for mount in pod["containers"][0]["volumeMounts"]]
    assert mount_pairs == [(claim, "/data"), ("scratch", "/a"), ("scratch", "/b")]


def test_programs_after_a_pause():
    mode = "pause: {enabled: true, resumeSpecs: [{type: worker, command: [a], args: [x], skipInitContainer: true}]}"
    options = imported(T9K[: T9K.index("    debug:")] + f"    {mode}\n").job["systems"]["t9k"]
    assert options["suspend"]
    assert (options["resume_commands"], options["resume_args"]) == ({"worker": ["a"]}, {"worker": ["x"]})
    assert options["resume_skip_init_containers"]


def test_fields_of_t9k_without_effect_are_said():
    text = T9K.replace("enabled: true", "enabled: false")
    start, end = text.index("  tensorboardSpec:"), text.index("  runMode:")
    text = f"{text[:start]}  tensorboardSpec: {{resources: {{limits: {{cpu: 1}}}}}}\n{text[end:]}"
    notes = [note for note in imported(text).notes if "deadline" not in note]
    assert notes == [
        "spec.tensorboardSpec names no logs and no image: the job has no TensorBoard",
        "spec.runMode.debug.replicaSpecs: had no effect; debug mode is not enabled",
    ]


ODD_OTHERS = ["metadata: foo", "metadata: [1]", "metadata: 3", "metadata: {name: [a]}", "x: 1"]


@pytest.mark.parametrize("body", ODD_OTHERS)
def test_another_document_of_any_shape_is_left_as_it_is(body):
    [job], [note] = read_text(f"kind: ConfigMap\n{body}\n---{TFJOB}")
    assert job.job["name"] == "flat"
    assert note.endswith("is no job, and is left as it is")


@pytest.mark.parametrize("count", ["9" * 5000, "²", "٣", "-1", "0", "129", "1.5"])
def test_a_number_of_gpus_that_no_job_file_has_stays_as_it_is(count):
    [job], _ = read_text(TFJOB.replace("nvidia.com/gpu: 1", f'nvidia.com/gpu: "{count}"'))
    assert "gpu" not in job.job.get("resources", {})
    assert job.job["pod"]["spec"]["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": count}}


TWO_JOBS = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: js}
spec:
  failurePolicy: {maxRestarts: 3, rules: [{action: FailJobSet, targetReplicatedJobs: [worker]}]}
  replicatedJobs:
  - {name: chief, template: {spec: {template: POD}}}
  - {name: worker, template: {spec: {parallelism: 2, successPolicy: {rules: [RULE]}, template: POD}}}
""".replace("POD", "{spec: {restartPolicy: Never, containers: [{name: m, image: x, command: [a]}]}}")


@pytest.mark.parametrize("rule", ["{succeededCount: 1}", '{succeededIndexes: "0-1"}'])
def test_a_success_of_some_pods_is_not_silently_that_of_all(rule):
    [job], _ = read_text(TWO_JOBS.replace("RULE", rule))
    assert job.job["success"] == "chief"
    assert any("spec.replicatedJobs[1].template.spec.successPolicy.rules = " in note for note in job.notes)
    assert any("spec.failurePolicy.rules[0].targetReplicatedJobs = " in note for note in job.notes)


GANG = TFJOB.replace(
    "        spec:\n", "        metadata: {labels: LABELS}\n        spec:\n          schedulerName: SCHEDULER\n"
)
LABEL = "scheduling.x-k8s.io/pod-group"
POD_GROUP = """---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: all}
spec: {minMember: 1, scheduleTimeoutSeconds: 30, minResources: {cpu: 4}}
"""


def in_gang(scheduler, policy="", labels="{}", beside=""):
    text = GANG.replace("SCHEDULER", scheduler).replace("LABELS", labels)
    return read_text(text.replace("cleanPodPolicy: None", f"schedulingPolicy: {{{policy}}}") + beside)


@pytest.mark.parametrize(
    ("scheduler", "policy", "gang"),
    [
        ("scheduler-plugins-scheduler", "minAvailable: 2", {}),
        (
            "mine",
            "minAvailable: 1, scheduleTimeoutSeconds: 60",
            {"scheduler": "mine", "min_available": 1, "timeout": "1m"},
        ),
    ],
)
def test_a_scheduling_policy_for_a_scheduler_of_groups_is_a_gang(scheduler, policy, gang):
    [job], _ = in_gang(scheduler, f"{policy}, priorityClass: high, minResources: {{cpu: 4}}")
    assert job.job["gang"] == gang
    assert job.job["systems"] == {"kubeflow": {"priority_class": "high"}}
    assert "pod" not in job.job
    assert [note for note in job.notes if "minResources" in note] == [
        "spec.runPolicy.schedulingPolicy.minResources.cpu = 4: the operator sums the replicas' requests itself"
    ]
    spec.parse(job_file(job), "job", registry.options())


@pytest.mark.parametrize(
    ("scheduler", "reason"), [("volcano", "# for Volcano, "), ("null", "# the scheduler is the ope")]
)
def test_a_scheduling_policy_of_volcano_or_of_no_known_scheduler_stays(scheduler, reason):
    [job], _ = in_gang(scheduler, "minAvailable: 2, queue: q")
    assert job.job["systems"]["kubeflow"] == {"min_available": 2, "queue_in": "scheduling_policy"}
    assert (job.job["queue"], "gang" in job.job) == ("q", False)
    assert reason in job_file(job)


def test_a_pod_group_beside_a_job_is_its_gang():
    [job], notes = in_gang("mine", "minAvailable: 2", f"{{{LABEL}: all}}", POD_GROUP)
    assert job.job["gang"] == {"scheduler": "mine", "min_available": 1, "timeout": "30s"}
    assert "pod" not in job.job
    assert "systems" not in job.job
    assert "schedulingPolicy: min_available = 2: the PodGroup has the numbers" in job.notes
    assert notes == ["PodGroup all: spec.minResources.cpu = 4: the group of a job has no field for it"]


@pytest.mark.parametrize(
    ("scheduler", "beside", "reason"),
    [
        ("mine", "", "the PodGroup is not beside the job"),
        ("null", POD_GROUP, "no one scheduler of the pods looks at it"),
        ("mine", POD_GROUP.replace("minMember: 1, ", ""), "its minMember is missing"),
    ],
)
def test_a_group_that_is_not_known_whole_stays_a_label(scheduler, beside, reason):
    [job], _ = in_gang(scheduler, labels=f"{{{LABEL}: all}}", beside=beside)
    assert job.job["pod"]["metadata"]["labels"] == {LABEL: "all"}
    assert "gang" not in job.job
    assert any(note.startswith(f"label {LABEL} = all of the pods stays") and reason in note for note in job.notes)


def test_the_group_of_a_job_system_whose_gangs_are_not_read_stays():
    text = T9K.replace("template: {", f"template: {{metadata: {{labels: {{{LABEL}: all}}}}, ")
    [job], _ = read_text(text + POD_GROUP)
    assert "gang" not in job.job
    assert any("on this job system, import does not read gangs" in note for note in job.notes), job.notes


def test_a_pod_group_of_no_job_and_one_of_volcano():
    [job], notes = read_text(TFJOB + POD_GROUP)
    assert notes == ["PodGroup all (scheduling.x-k8s.io/v1alpha1) is no job, and is left as it is"]
    assert "gang" not in job.job
    annotated = GANG.replace("labels: LABELS", "annotations: {scheduling.k8s.io/group-name: all}")
    [job], _ = read_text(annotated.replace("SCHEDULER", "volcano"))
    assert any(note.startswith("the pods' PodGroup of Volcano") for note in job.notes)


def test_a_job_has_one_queue():
    text = TFJOB.replace("namespace: team", "labels: {kueue.x-k8s.io/queue-name: k}")
    [job], _ = read_text(text.replace("cleanPodPolicy: None", "schedulingPolicy: {queue: q}"))
    assert job.job["queue"] == "k"
    assert any(
        note.startswith("spec.runPolicy.schedulingPolicy.queue = q: the job has a queue of Kueue") for note in job.notes
    )


SUSPENDED = {
    "kubeflow": TFJOB.replace("runPolicy: {", "runPolicy: {suspend: true, "),
    "jobset": JOBSET.replace("spec:\n  failure", "spec:\n  suspend: true\n  failure"),
    "t9k": T9K[: T9K.index("    debug:")] + "    pause: {enabled: true}\n",
}


@pytest.mark.parametrize("system", SUSPENDED)
def test_a_suspended_job_says_who_starts_it(system):
    job = imported(SUSPENDED[system])
    assert job.job["systems"][system]["suspend"]
    assert "# a run waits until `tfsteps resume`, or Kueue, starts it; remove this to start at once" in job_file(job)
    parsed = spec.parse(job_file(job), "job", registry.options())
    [warning] = [line for line in registry.get(system).warnings(parsed) if line.startswith(f"`suspend` of {system}: ")]
    assert "the job does not start until" in warning
    assert ("its queue" in warning) is ("queue" in job.job)
    assert "`deadlines.total`, 7d, counts" in warning


def test_a_text_that_is_not_yet_a_manifest_says_what_to_do():
    assert "line 10 has 'replicas' a second time, first in line 9. Keep one" in refusal(
        TFJOB.replace("      replicas: 2\n", "      replicas: 2\n      replicas: 3\n")
    )
    for chart in ("{{- if .Values.on }}\n" + TFJOB, TFJOB.replace("name: flat", "name: {{ .Release.Name }}")):
        assert "is of a template, not YAML: render it first, a chart of Helm with `helm template CHART" in refusal(
            chart
        )


@pytest.mark.parametrize("seconds", [0, -5])
def test_a_deadline_that_fails_each_job(seconds):
    job = imported(tfjob({"Worker": {}}, runPolicy={"activeDeadlineSeconds": seconds}))
    assert "deadlines" not in job.job
    assert f"activeDeadlineSeconds = {seconds}: such a job fails as soon as it has started; " in " ".join(job.notes)


def test_a_time_to_live_that_is_over():
    assert imported(tfjob({"Worker": {}}, runPolicy={"ttlSecondsAfterFinished": -1})).job["on_end"] == "delete"


def test_lists_within_lists():
    item = yaml.safe_load(TFJOB)
    assert imported(yaml.safe_dump({"kind": "List", "items": [{"kind": "TFJobList", "items": [item]}]})).job
    assert "but nothing" in refusal("kind: List\nitems:\n")


def test_comments_are_lines():
    job = imported(TFJOB.replace("name: flat", 'name: "flat\\nimage: other\\e[31m"'))
    assert job_file(job).startswith("# TFJob flat image: other\\x1b[31m (kubeflow.org/v1), imported by tfsteps\nname:")


def _of(kind, api, **body):
    return yaml.safe_dump({"apiVersion": api, "kind": kind, "metadata": {"name": "a"}, "spec": body})


_SECOND_WORKER = JOBSET.partition("replicatedJobs:\n")[2]
JOB_OF_JOBSET = {"name": "worker", "template": {"spec": {"parallelism": -1}}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (_of("JobSet", "jobset.x-k8s.io/v1alpha2"), "spec.replicatedJobs is missing or empty"),
        (
            _of("JobSet", "jobset.x-k8s.io/v1alpha2", replicatedJobs=[{**JOB_OF_JOBSET, "replicas": -1}]),
            "spec.replicatedJobs[0].replicas is -1, expected",
        ),
        (
            _of("JobSet", "jobset.x-k8s.io/v1alpha2", replicatedJobs=[JOB_OF_JOBSET]),
            "spec.replicatedJobs[0].template.spec.parallelism is -1, expected",
        ),
        (
            JOBSET.replace("parallelism: 4", "parallelism: 0").replace("completions: 4", "completions: 0"),
            "spec.replicatedJobs[0].template.spec.parallelism is 0, expected",
        ),
        (
            JOBSET.replace("name: workers", "name: worker") + _SECOND_WORKER,
            "spec.replicatedJobs[1] is a second worker; a job file has one",
        ),
        (
            _of("TrainJob", "trainer.kubeflow.org/v1alpha1", trainer={"numNodes": -1}),
            "spec.trainer.numNodes is -1, expected a whole number from 0 up",
        ),
        (
            _of("TrainJob", "trainer.kubeflow.org/v1alpha1", trainer={"numNodes": 0}),
            "spec.trainer.numNodes is 0, expected at least 1 replica",
        ),
        (_of("TensorFlowTrainingJob", "batch.tensorstack.dev/v1beta1"), "spec.replicaSpecs is missing or empty"),
        (_of("TFJob", "kubeflow.org/v1alpha1"), "spec.replicaSpecs is missing or empty"),
    ],
)
def test_numbers_of_replicas_of_which_no_job_can_be_made(text, words):
    assert words in refusal(text)


def test_what_a_job_file_cannot_have_as_long_or_as_often_is_lowered_and_noted():
    policy = {"activeDeadlineSeconds": 10**9, "ttlSecondsAfterFinished": 10**9, "backoffLimit": 10**6}
    job = imported(tfjob({"Worker": {}}, runPolicy=policy))
    assert (job.job["deadlines"], job.job["keep_for"]) == ({"total": "3650d"}, "3650d")
    assert [note for note in job.notes if "lowered" in note] == [
        "spec.runPolicy.backoffLimit = 1000000: lowered to 10000, the most that a job file can have",
        "activeDeadlineSeconds = 1000000000: lowered to 3650d, the most that a job file can have",
        "ttlSecondsAfterFinished = 1000000000: lowered to 3650d, the most that a job file can have",
    ]
