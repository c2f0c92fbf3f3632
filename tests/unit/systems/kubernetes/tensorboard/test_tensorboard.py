"""The TensorBoard that a job object asks for: where its data is, what it runs as, and when Kubernetes ends it."""

import msgspec
import pytest

from tfsteps import spec
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.systems import registry
from tfsteps.systems.kubernetes.system import KubernetesSystem
from tfsteps.systems.kubernetes.tensorboard import manifests
from tfsteps.systems.kubernetes.tensorboard.request import (
    SETTINGS,
    NoStorageError,
    TensorBoardSettings,
    request_of,
    run_folder,
    settings_of,
)
from tfsteps.tensorboard.address import PUBLIC_URL, public_url

(KIND,) = registry.kinds_of("jobs")
WHO = Identity(run="r1", task="fit")
CLAIM = {"volumes": [{"pvc": "data", "mount": "/data"}], "output_dir": "/data/{run_id}/{task}"}


def job_of(**fields):
    job = {"name": "job", "image": "x:1", "roles": {"worker": {}}, **CLAIM, "tensorboard": {}, **fields}
    return spec.from_plain({name: value for name, value in job.items() if value is not None}, "job", registry.options())


def settings(job):
    system = KubernetesSystem(KIND)
    return settings_of(job, WHO, system.output_paths(job, WHO, None))


def request(job):
    kind, system = KIND, KubernetesSystem(KIND)
    rendered = kind.render(job, WHO, system.output_paths(job, WHO, None), "ml")
    specs = [role.template["spec"] for role in kind.roles(rendered.observed()).values()]
    return request_of(rendered.manifest, specs, kind.container, settings(job))


def pod_of(job, address=""):
    return manifests.job(request(job), address, 60.0)["spec"]["template"]["spec"]


@pytest.mark.parametrize(
    ("output_dir", "folder"),
    [
        ("/data/{run_id}/{task}", "/data/r1"),
        ("/data/{name}/{run_id}-x/a/{task}", "/data/job/r1-x"),
        ("gs://bucket/{run_id}/{task}", "gs://bucket/r1"),
        ("/data/{run_id}", "/data/r1"),
        ("/data/{task}/{run_id}", ""),
        ("/data/{task}", ""),
        ("/data/x", ""),
        (None, "/data/tfsteps/r1"),
    ],
)
def test_the_folder_of_a_run(output_dir, folder):
    settings = run_folder(job_of(name="job", output_dir=output_dir), WHO)
    assert settings == folder


def test_a_job_without_the_field_asks_for_none():
    system = KubernetesSystem(KIND)
    for job in (job_of(), job_of(tensorboard=None)):
        manifest, *_ = system.plan(job, WHO, system.output_paths(job, WHO, None))
        assert (SETTINGS in manifest["metadata"]["annotations"]) == bool(job.tensorboard)


def test_its_objects_have_the_labels_of_the_job_and_its_pod_does_not():
    wish = request(job_of(labels={"run-id": "7f", "task-id": "12", "kueue.x-k8s.io/queue-name": "q"}))
    for item in (manifests.job(wish, "", 60.0), manifests.dependent(wish)):
        labels = item["metadata"]["labels"]
        assert (labels["run-id"], labels["task-id"], "kueue.x-k8s.io/queue-name" in labels) == ("7f", "12", False)
    assert "run-id" not in manifests.job(wish, "", 60.0)["spec"]["template"]["metadata"]["labels"]
    assert wish.name == request(job_of()).name, "the tasks of a run have one"


def test_settings_and_their_defaults():
    assert settings(job_of()) == TensorBoardSettings(log_dirs={"": "/data/r1"}, total=604800.0)
    chosen = settings(job_of(tensorboard={"log_dir": "logs/x", "idle": "5m", "keep_for": "2h", "image": "tb:1"}))
    expected = TensorBoardSettings(
        log_dirs={"": "/data/r1/fit/logs/x"}, image="tb:1", idle=300.0, keep_for=7200.0, total=604800.0
    )
    assert chosen == expected
    assert msgspec.json.decode(msgspec.json.encode(chosen), type=TensorBoardSettings) == chosen


def test_all_tasks_of_a_run_ask_for_one_name_and_other_runs_for_another():
    same, other = Identity(run="r1", task="judge"), Identity(run="r2", task="fit")
    names = []
    for who in (WHO, same, other):
        system, kind, job = KubernetesSystem(KIND), KIND, job_of()
        rendered = kind.render(job, who, system.output_paths(job, who, None), "ml")
        specs = [role.template["spec"] for role in kind.roles(rendered.observed()).values()]
        settings = settings_of(job, who, system.output_paths(job, who, None))
        names.append(request_of(rendered.manifest, specs, kind.container, settings).name)
    assert names[0] == names[1] != names[2]
    assert all(len(name) <= 63 for name in names)


def test_the_claim_is_mounted_read_only_and_the_pod_is_restricted():
    pod = pod_of(job_of())
    (container,) = pod["containers"]
    data = next(mount for mount in container["volumeMounts"] if mount["mountPath"] == "/data")
    assert data["readOnly"] is True
    assert {"name": data["name"], "persistentVolumeClaim": {"claimName": "data"}} in pod["volumes"]
    assert container["args"][0] == "/data/r1"
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["resources"].keys() == {"requests", "limits"}, "a quota may demand each"
    assert "serviceAccountName" not in pod
    assert pod["automountServiceAccountToken"] is False


def test_it_runs_as_the_user_of_the_replicas_but_never_as_root():
    def context(**fields):
        return pod_of(job_of(pod={"spec": {"securityContext": fields}}))["securityContext"]

    assert context(runAsUser=1000, fsGroup=2000).items() >= {"runAsUser": 1000, "fsGroup": 2000}.items()
    assert "runAsUser" not in context(runAsUser=0)


def test_kubernetes_ends_it_even_if_it_never_starts():
    job = manifests.job(request(job_of(tensorboard={"idle": "1h", "keep_for": "1d"})), "", 100.0)
    assert job["spec"]["activeDeadlineSeconds"] == 100 + 3600 + 86400
    assert job["spec"]["ttlSecondsAfterFinished"] > 0
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "OnFailure"


def test_it_is_not_taken_for_a_job():
    labels = manifests.job(request(job_of()), "", 0.0)["metadata"]["labels"]
    assert labels["tfsteps.dev/run-id"] == "r1"
    assert not {"tfsteps.dev/task", "tfsteps.dev/attempt"} & labels.keys()


def test_a_volume_of_a_pod_patch_is_storage_too():
    azure = {"name": "share", "azureFile": {"secretName": "azure", "shareName": "data"}}
    container = {"name": "tensorflow", "volumeMounts": [{"name": "share", "mountPath": "/share"}]}
    job = job_of(
        volumes=[], output_dir="/share/{run_id}", pod={"spec": {"volumes": [azure], "containers": [container]}}
    )
    assert azure in pod_of(job)["volumes"]


@pytest.mark.parametrize("volumes", [[], [{"empty_dir": "1Gi", "mount": "/data"}]])
def test_a_folder_that_no_other_pod_can_read(volumes):
    with pytest.raises(NoStorageError, match=r"/data/r1 is on no claim.*use a path on a claim"):
        request(job_of(volumes=volumes))


def test_an_object_store_is_reached_with_the_credentials_of_the_training():
    job = job_of(
        volumes=[{"secret": "gcp", "mount": "/var/gcp"}, {"pvc": "data", "mount": "/data"}],
        output_dir="s3://bucket/{run_id}",
        service_account="trainer",
        env={
            "AWS_ACCESS_KEY_ID": {"secret": "s3", "key": "id"},
            "S3_ENDPOINT": "http://minio",
            "GOOGLE_APPLICATION_CREDENTIALS": "/var/gcp/key.json",
            "PASSWORD": "x",
        },
    )
    pod = pod_of(job)
    (container,) = pod["containers"]
    assert container["args"][0] == "s3://bucket/r1"
    assert {variable["name"] for variable in container["env"]} == {
        "HOME",
        "AWS_ACCESS_KEY_ID",
        "S3_ENDPOINT",
        "GOOGLE_APPLICATION_CREDENTIALS",
    }
    assert pod["serviceAccountName"] == "trainer"
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/var/gcp", "/tmp"]


def test_a_public_address_gives_the_program_its_path(monkeypatch):
    monkeypatch.setenv(PUBLIC_URL, "https://ml.example/tb/{namespace}/{name}/")
    address = public_url("ml", "tensorboard-x")
    assert address == "https://ml.example/tb/ml/tensorboard-x/"
    assert "--path-prefix=/tb/ml/tensorboard-x" in pod_of(job_of(), address)["containers"][0]["args"]


@pytest.mark.parametrize("text", ["ml.example/{name}", "https://ml.example/", "https://x/{nom}", "https://x/{name"])
def test_a_public_address_that_is_not_usable(monkeypatch, text):
    monkeypatch.setenv(PUBLIC_URL, text)
    with pytest.raises(ValueError, match=rf"{PUBLIC_URL}=.*is not usable; expected a URL"):
        public_url("ml", "x")


def test_without_the_setting_there_is_no_public_address(monkeypatch):
    monkeypatch.delenv(PUBLIC_URL, raising=False)
    assert public_url("ml", "x") == ""


def test_places_are_not_needed_by_name():
    """The settings hold the folder, so that a later command needs only the job object."""
    paths = OutputPaths(output="/o", model="/o/m", logs="/o/l", base_dir=None)
    assert settings_of(job_of(output_dir="/o"), WHO, paths).log_dirs == {"": "/o/l"}
