"""`tfsteps compile`, `lint`, and what `submit` does without a cluster."""

import pathlib

import msgspec
import pytest
import yaml

from tests.unit.cli.command import output_lines, refused, tfsteps
from tfsteps.engines import registry as engines

PIPELINES = [
    file
    for file in sorted((pathlib.Path(__file__).parents[4] / "pipelines").glob("*.py"))
    if file.stem != "digits_argo" and ("@dsl.pipeline" in file.read_text() or file.stem.endswith("_argo"))
]
KFP = """
from kfp import dsl
from other import shared

@dsl.container_component
def step(n: int):
    return dsl.ContainerSpec(image={image!r}, command=["true"], args=["--executor_input", "{{{{$}}}}"])

@dsl.pipeline(name="nightly")
def nightly(n: int, mode: str = "full", lr: float = 0.1, deep: bool = True, sizes: list = [1], options: dict = {{}}):
    step(n=n)
"""
OTHER = """
from kfp import dsl

@dsl.container_component
def helper():
    return dsl.ContainerSpec(image="busybox:1.37", command=["true"], args=["--executor_input", "{{$}}"])

@dsl.pipeline
def shared():
    helper()
"""
HERA = """
from hera.workflows import Container, CronWorkflow, Parameter, Workflow, WorkflowTemplate

def filled(workflow):
    with workflow:
        Container(name="main", image="busybox:1.37", command=["echo", "{{workflow.parameters.what}}"])
    return workflow

FIELDS = {"entrypoint": "main", "arguments": [Parameter(name="what"), Parameter(name="how", value="well")]}
"""
FLOW = HERA + 'flow = filled(Workflow(generate_name="hello-", labels={"team": "vision"}, **FIELDS))\n'
WHEN = ["--cron", "0 2 * * sun", "--timezone", "Europe/Berlin"]


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a file and names it."""

    def written(name, text):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return written


@pytest.fixture
def nightly(write):
    write("other.py", OTHER)
    return write("nightly.py", KFP.format(image="busybox:1.37"))


@pytest.fixture
def flow(write):
    return write("flow.py", FLOW)


# --- compile


def test_a_pipeline_of_kubeflow(nightly, tmp_path):
    code, out, err = tfsteps("compile", nightly)
    assert code == 0
    assert yaml.safe_load(out)["pipelineInfo"]["name"] == "nightly"
    assert err.startswith("nightly for kfp, ")
    assert "KiB, no problems" in err
    file = tmp_path / "nightly.yaml"
    assert tfsteps("compile", nightly, "-o", file) == (0, "", f"{file}: {err}")
    assert file.read_text() == out
    assert output_lines("lint", file) == [f"{file}: nightly for kfp is fine"]


def test_pipelines_that_a_program_imports_are_not_its_own_and_its_output_is_not_ours(write, nightly):
    program = write("program.py", "print('hello')\n" + nightly.read_text())
    code, out, err = tfsteps("compile", program)
    assert (code, err.splitlines()[0]) == (0, "hello")
    assert yaml.safe_load(out)["pipelineInfo"]["name"] == "nightly"


def test_a_workflow_of_hera_whose_arguments_are_given_later(flow, write):
    missing = "Workflow hello-: spec.arguments: parameter what has no value; set it at submission"
    code, out, err = tfsteps("compile", flow)
    assert (code, err) == (0, f"warning: {flow}: {missing}\nhello for argo, {len(out)} B, no problems\n")
    assert yaml.safe_load(out)["metadata"] == {"generateName": "hello-", "labels": {"team": "vision"}}
    file = write("flow.yaml", out)
    assert tfsteps("lint", file) == (0, f"{file}: hello for argo is fine\n", f"warning: {file}: {missing}\n")


@pytest.mark.parametrize("program", PIPELINES, ids=lambda program: program.stem)
def test_compile_and_lint_agree(program, tmp_path):
    file = tmp_path / "compiled.yaml"
    code, _, err = tfsteps("compile", program, "-o", file)
    of_compile = [line.replace(str(program), str(file)) for line in err.splitlines() if line.startswith("warning: ")]
    assert code == 0, err
    code, _, err = tfsteps("lint", file)
    assert (code, err.splitlines()) == (0, of_compile)


def test_manifests_of_others_beside_a_workflow(flow, write, tmp_path):
    workflow = yaml.safe_load(tfsteps("compile", flow)[1])
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}
    file = write("list.yaml", yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [config, workflow]}))
    assert tfsteps("lint", file)[:2] == (0, f"{file}: hello for argo is fine\n")


def test_a_pipeline_with_a_problem_is_not_written(write, tmp_path):
    write("other.py", OTHER)
    program = write("nightly.py", WARNED.replace("workers=1", "workers=1, restart='sometimes'"))
    code, out, err = tfsteps("compile", program, "-o", tmp_path / "nightly.yaml")
    assert (code, out) == (2, "")
    assert "restart: 'sometimes' is not one of the choices" in err
    assert not (tmp_path / "nightly.yaml").exists()


WARNED = """
from kfp import dsl
from tfsteps.kfp import train

@dsl.pipeline
def warned():
    train(name="a", command=["true"], workers=1)
"""


def test_a_warning_is_printed_and_refuses_nothing(write, tmp_path):
    program, file = write("warned.py", WARNED), tmp_path / "warned.yaml"
    code, _, err = tfsteps("compile", program, "-o", file)
    missing = "task train: on a cluster, roles.worker.image: is missing"
    assert (code, err.startswith(f"warning: {program}: {missing}")) == (0, True), err
    code, out, err = tfsteps("lint", file)
    assert (code, out) == (0, f"{file}: warned for kfp is fine\n")
    assert err.startswith(f"warning: {file}: {missing}")
    assert f"warning: {file}: image tfsteps/launcher:" in err
    assert "names no registry" in err


def test_which_one_of_several(write):
    two = "\none = filled(Workflow(name='one', **FIELDS))\ntwo = filled(Workflow(name='two', **FIELDS))\n"
    program = write("several.py", HERA + two)
    assert "has several pipelines; choose with --pipeline: one, two" in refused("compile", program)
    assert "has no pipeline 'three'; choose with --pipeline: one, two" in refused(
        "compile", program, "--pipeline", "three"
    )
    assert "name: two" in tfsteps("compile", program, "--pipeline", "two")[1]
    named = write("two.py", HERA + two)
    assert "name: two" in tfsteps("compile", named)[1], "the one of the file's name"


PROGRAMS = {
    "x = 1\n": "defines no pipeline at its top level; decorate a function with @dsl.pipeline",
    "\n1 / 0\n": "program.py, line 2: ZeroDivisionError: division by zero; correct the program",
    "def f(:\n": "program.py, line 1: SyntaxError:",
    "import kfp.nothing_like_it\n": "line 1: ModuleNotFoundError: No module named 'kfp.nothing_like_it'",
    "raise SystemExit(3)\n": "SystemExit: 3",
    "open('no such file')\n": "FileNotFoundError: [Errno 2]",
    "from kfp import dsl\n\n@dsl.pipeline\ndef p():\n    dsl.If(1 == 2)\n": "program.py, line",
}


@pytest.mark.parametrize("text", PROGRAMS)
def test_programs_that_are_none(write, text):
    assert PROGRAMS[text] in refused("compile", write("program.py", text))


@pytest.mark.parametrize("name", ["component.py", "task.py"])
@pytest.mark.parametrize("argument", ["workers='2'", "nosuch=1"])
def test_the_line_is_one_of_the_program_not_of_a_file_whose_name_ends_like_it(write, monkeypatch, name, argument):
    call = f"    train(name='a', image='a:1', command=['x'], {argument})\n"
    program = write(name, f"from kfp import dsl\nfrom tfsteps.kfp import train\n@dsl.pipeline\ndef p():\n{call}")
    assert f"{program}, line 5: " in refused("compile", program)
    monkeypatch.chdir(program.parent)
    assert f"../{program.parent.name}/{name}, line 5: " in refused("compile", f"../{program.parent.name}/{name}")


TASK_OF_1 = """
from kfp import dsl

@dsl.component(base_image="a:1")
def step(): ...

@dsl.pipeline
def p():
    step().add_env_variable(1)
"""


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("from kfp import dsl\n@dsl.pipeline\ndef p():\n    dsl.ContainerOp(name='a', image='b')\n", "ContainerOp"),
        ("from kfp import dsl\n@dsl.pipeline\ndef p():\n    dsl.ResourceOp(name='a')\n", "ResourceOp"),
        ("from kfp.components import func_to_container_op\n", "func_to_container_op"),
        ("from kfp import onprem\n", "onprem"),
        (TASK_OF_1, "add_env_variable"),
    ],
)
def test_a_program_for_version_1_of_kubeflow_pipelines(write, program, name):
    text = refused("compile", write("old.py", program))
    assert f"{name} is of KFP 1, and kfp 2 does not have it: launch jobs with tfsteps.kfp.train" in text


NOT_FINITE = """\
from kfp import dsl
from tfsteps.kfp import train

@dsl.pipeline
def p():
    train(name="a", image="a/b:1", command=["true"], workers=1, spec={"deadlines": {"total": float("inf")}})
"""


def test_a_number_that_json_does_not_have_is_refused(write):
    text = refused("compile", write("inf.py", NOT_FINITE))
    assert "infinity cannot be an input of a task: write a finite number, or text" in text


def test_another_wrong_name_is_corrected_in_the_program(write):
    text = refused("compile", write("new.py", "from kfp import dsl\ndsl.Contain\n"))
    assert text.rstrip().endswith("'Contain'; correct the program")


def test_lint_of_a_program_says_to_compile_it(nightly):
    target = nightly.with_suffix(".yaml")
    assert f"compile it with `tfsteps compile {nightly} --output {target}`" in refused("lint", nightly)


def test_a_macro_in_an_input_is_warned_of(nightly):
    _, _, errors = tfsteps("submit", nightly, "--dry-run", "-p", "n=1", "-p", "mode=[[ScheduledTime]]")
    assert "warning: --param mode: the program may get [[ScheduledTime]] as it is" in errors


@pytest.mark.parametrize("option", ["--name", "--context", "--namespace", "--service-account"])
def test_options_of_clusters_do_not_apply_to_a_local_run(nightly, option):
    text = refused("submit", nightly, "--engine", "local", "-p", "n=1", option, "x")
    assert text.endswith(f"error: {option} does not apply to a local run; leave it out\n")


def test_a_program_that_is_not_there(tmp_path):
    assert "does not exist; give a program that defines a pipeline" in refused("compile", tmp_path / "none.py")


# --- lint


FILES = {
    "": "is not a pipeline of Kubeflow Pipelines, or manifests of Argo Workflows",
    "a: [": "line 1: is not YAML",
    "- 1": "is not a pipeline",
    "apiVersion: v1\nkind: Pod\n": "is not a pipeline",
}


@pytest.mark.parametrize("text", FILES)
def test_files_that_are_none(write, text):
    assert FILES[text] in refused("lint", write("file.yaml", text))


def test_lint_reads_standard_input_and_prints_all_problems(write):
    bad = (
        "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {name: a}\nspec: {entrypoint: b, templatess: []}\n"
    )
    code, out, err = tfsteps("lint", "-", write("two.yaml", bad), input=bad)
    assert (code, out) == (2, "")
    assert "stdin: Workflow a: " in err
    assert "two.yaml: Workflow a: " in err
    assert "templatess" in err


def test_a_file_that_cannot_be_read(tmp_path):
    assert "cannot be read: [Errno 2]" in refused("lint", tmp_path / "none.yaml")


BROKEN = {
    "kind: Workflow\nmetadata: {name: a}\nspec: x\n": "spec",
    "metadata: {name: a}\nspec: {}\n": "kind",
    "kind: Workflow\nmetadata: {name: a}\n": "spec",
    "kind: Workflow\nmetadata: a\nspec: {arguments: [], entrypoint: b, templates: []}\n": "a",
    "pipelineInfo: {name: a}\n": "does not have the shape of a compiled pipeline (KeyError: 'root')",
    "pipelineInfo: a\nroot: b\n": "does not have the shape of a compiled pipeline",
    "kind: Workflow\nmetadata: {name: a}\nspec: {entrypoint: nowhere}\n": "nowhere",
    "kind: Workflow\nmetadata: {name: a}\nspec: {arguments: {parameters: [{name: 1}, 2]}}\n": "parameters",
}


@pytest.mark.parametrize("text", BROKEN)
def test_broken_manifests_are_neither_fine_nor_submitted(write, text):
    api = "" if text.startswith("pipelineInfo") else "apiVersion: argoproj.io/v1alpha1\n"
    file = write("broken.yaml", api + text)
    assert BROKEN[text] in refused("lint", file)
    assert BROKEN[text] in refused("submit", file, "--dry-run")


# --- submit


def submitted(*args):
    """Return the documents of a dry run, and what it says beside."""
    code, out, err = tfsteps("submit", *args, "--dry-run")
    assert code == 0, err
    return list(yaml.safe_load_all(out)), err


def test_a_workflow_with_its_arguments(flow):
    (workflow,), err = submitted(flow, "-p", "what=a=b", "--namespace", "team", "--service-account", "trainer")
    assert err == ""
    assert workflow["kind"] == "Workflow"
    labels = {"team": "vision", "tfsteps.dev/pipeline": "hello", "tfsteps.dev/trigger": "manual"}
    assert workflow["metadata"] == {"generateName": "hello-", "labels": labels, "namespace": "team"}
    assert workflow["spec"]["serviceAccountName"] == "trainer"
    arguments = {parameter["name"]: parameter["value"] for parameter in workflow["spec"]["arguments"]["parameters"]}
    assert arguments == {"what": "a=b", "how": "well"}


def test_a_cron_workflow_and_its_next_ten_runs(flow):
    (cron,), err = submitted(flow, "-p", "what=x", *WHEN)
    mark = {"tfsteps.dev/spec-hash": cron["metadata"]["annotations"]["tfsteps.dev/spec-hash"]}
    assert (cron["kind"], cron["metadata"]) == ("CronWorkflow", {"name": "hello", "annotations": mark})
    assert (cron["spec"]["schedules"], cron["spec"]["timezone"]) == (["0 2 * * 0"], "Europe/Berlin")
    ours = {"tfsteps.dev/pipeline": "hello", "tfsteps.dev/trigger": "scheduled"}
    assert cron["spec"]["workflowMetadata"] == {"labels": {"team": "vision", **ours}}
    first, *lines = err.splitlines()
    assert (first, len(lines)) == ("next runs:", 10)
    assert all(line.strip().startswith("Sun ") for line in lines)


def test_a_cron_job_and_all_that_it_needs(flow):
    objects, _ = submitted(
        flow, "-p", "what=x", "--namespace", "team", "--scheduler", "cronjob", "--image", "i:1", *WHEN
    )
    assert [item["kind"] for item in objects] == ["ServiceAccount", "Role", "RoleBinding", "ConfigMap", "CronJob"]
    assert {item["metadata"]["namespace"] for item in objects} == {"team"}
    pod = objects[-1]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "i:1"
    objects_of_user, _ = submitted(
        flow, "-p", "what=x", "--namespace", "team", "--scheduler", "cronjob", "--service-account", "own", *WHEN
    )
    assert [item["kind"] for item in objects_of_user] == ["ConfigMap", "CronJob"]


def test_templates_and_crons_of_ones_own(write):
    template = write("template.py", HERA + "t = filled(WorkflowTemplate(name='train', **FIELDS))\n")
    (workflow,), _ = submitted(template, "-p", "what=x")
    labels = {"tfsteps.dev/pipeline": "train", "tfsteps.dev/trigger": "manual"}
    assert (workflow["kind"], workflow["metadata"]) == ("Workflow", {"generateName": "train-", "labels": labels})
    cron = write("cron.py", HERA + "c = filled(CronWorkflow(name='nightly', schedules=['0 2 * * *'], **FIELDS))\n")
    (objects_of_user,), _ = submitted(cron, "-p", "what=x", "--name", "other")
    assert (objects_of_user["kind"], objects_of_user["metadata"]["name"]) == ("CronWorkflow", "other")
    assert "has its own schedule" in refused("submit", cron, "-p", "what=x", *WHEN)


REFUSALS = {
    ("-p", "wat=x"): "--param wat: the pipeline has no such input; write what",
    (): "the pipeline requires what; add --param what=VALUE",
    ("-p", "what"): "--param 'what' has no value; write --param NAME=VALUE",
    ("-p", "what=1", "-p", "what=2"): "--param what is given twice",
    ("-p", "what=x", "--cron", "0 0 2 * * 0"): "--cron: cron: '0 0 2 * * 0' has 6 fields",
    ("-p", "what=x", "--cron", "@daily", "--every", "1h"): "--cron and --every cannot be combined",
    ("-p", "what=x", "--every", "1h", "--timezone", "UTC"): "--timezone requires --cron",
    ("-p", "what=x", "--schedule", "none.yaml"): "schedule 'none.yaml' cannot be read",
    ("-p", "what=x", "--every", "1h", "--wait"): "--wait is for one run",
    ("-p", "what=x", "--every", "30s", "--scheduler", "cronjob"): "interval: 30s is too short for a Kubernetes CronJob",
    ("-p", "what=x", "--every", "1h", "--name", "n" * 53): "is longer than 52 characters",
    ("-p", "what=x", "--every", "1h", "--name", "Nightly_ü"): "--name 'Nightly_ü' cannot name an object of Kubernetes",
    ("-p", "what=x", "--name", "-a"): "--name '-a' cannot name an object of Kubernetes",
    ("-p", "what=x", "--scheduler", "cronjob"): "--scheduler is for a schedule; add --cron, --every or --schedule, or",
    ("-p", "what=x", "--every", "1h", "--scheduler", "cronjob", "--image", "a b"): (
        "--image 'a b' is not allowed. Allowed: an image reference in lower case: [registry/]name[:tag][@sha256:digest]"
        ". Write another, or leave the option out"
    ),
    ("-p", "what=x", "--every", "1h", "--experiment", "e"): "--experiment is for --engine kfp, not for Argo Workflows",
    ("--engine", "kfp"): "is for argo, not kfp; leave --engine out",
    ("--engine", "local"): (
        "is for argo, and such programs cannot run on this machine: --engine local runs pipelines of Kubeflow"
        " Pipelines only; leave it out to submit to Argo"
    ),
}


@pytest.mark.parametrize("options", REFUSALS)
def test_refused(flow, options):
    assert REFUSALS[options] in refused("submit", flow, "--dry-run", *options)


def test_an_image_without_a_registry_is_not_submitted(write, monkeypatch):
    file = write("warned.py", WARNED)
    monkeypatch.setenv("KUBECONFIG", "/nowhere/at/all")
    refusal = refused("submit", file)
    assert f"{file}: image tfsteps/launcher:" in refusal
    assert (
        "set TFSTEPS_REGISTRY=registry.example/ml where you compile and submit, or TFSTEPS_REGISTRY=docker.io"
        in refusal
    )
    assert tfsteps("submit", file, "--dry-run")[0] == 0, "nothing is created"
    monkeypatch.setattr("tfsteps.image.REGISTRY", "docker.io")
    assert "names no registry" not in tfsteps("submit", file)[2]


def test_a_cluster_that_cannot_be_reached(flow, write, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/nowhere/at/all")
    assert "there is no kubeconfig /nowhere/at/all" in refused("submit", flow, "-p", "what=x")
    cron_job = ["-p", "what=x", "--scheduler", "cronjob", "--every", "1h"]
    assert "image tfsteps/launcher:" in refused("submit", flow, *cron_job)
    assert "or give --namespace" in refused("submit", flow, *cron_job, "--image", "registry.example/tfsteps/launcher:1")


VALUES = {
    "n=x": "--param n: 'x' is not a whole number; write something like --param n=3",
    "lr=fast": "is not a number",
    "deep=yes": "is not true or false; write something like --param deep=true",
    "sizes=1,2": "is not a list in JSON",
    "options=[]": "is not a mapping in JSON",
}


@pytest.mark.parametrize("value", VALUES)
def test_inputs_of_kubeflow_have_types(nightly, value):
    others = [] if value.startswith("n=") else ["-p", "n=1"]
    assert VALUES[value] in refused("submit", nightly, "--dry-run", *others, "-p", value)


def test_inputs_of_kubeflow_as_values(nightly):
    values = {"n": 3, "mode": "3", "lr": 1.0, "deep": False, "sizes": [2], "options": {"a": 1}}
    texts = ["n=3", "mode=3", "lr=1", "deep=false", "sizes=[2]", 'options={"a": 1}']
    (arguments,), _ = submitted(nightly, *[part for text in texts for part in ("-p", text)])
    assert arguments["params"] == values
    assert "the pipeline requires n" in refused("submit", nightly, "--dry-run")


@pytest.mark.parametrize(
    ("option", "value", "wrong"),
    [
        ("--experiment", "", "'' is not allowed. Allowed: text that is not empty"),
        ("--server-timezone", "UTC", "is for a schedule; add --cron"),
    ],
)
def test_options_of_kubeflow_that_would_be_wrong_or_ignored(nightly, option, value, wrong):
    assert f"error: {option} {wrong}" in refused("submit", nightly, "--dry-run", "-p", "n=1", option, value)


def test_an_engine_may_run_pipelines_of_one_that_is_not_installed(flow, monkeypatch):
    runner = msgspec.structs.replace(engines.plugin("local"), name="far", title="far away", runs=("spark",))
    plugins = {**engines.plugins(), "far": runner}
    monkeypatch.setattr(engines, "plugins", lambda: plugins)
    assert "--engine far runs pipelines of spark only" in refused("submit", flow, "--engine", "far")


def test_this_machine_keeps_no_schedules(nightly):
    assert "cannot be scheduled" in refused("submit", nightly, "-p", "n=1", "--engine", "local", *WHEN)


@pytest.mark.parametrize("name", ["-", "pipeline.yaml", "notebook.ipynb"])
def test_what_is_no_program_is_not_compiled(name):
    assert f"{name!r} is no Python program; give a file whose name ends in .py" in refused("compile", name)
