"""Hypothesis strategies for job descriptions that the parser must take."""

from hypothesis import strategies as st

from tfsteps.spec import ROLES, Deadlines, EnvSource, Resources, Role, TrainingJob
from tfsteps.spec.pod import Limits, Nfs, Toleration, Volume
from tfsteps.spec.types import Outputs, Roles, TensorBoard

MIB = 2**20
names = st.sampled_from(["a", "mnist", "a-1", "x" * 63])
texts = st.one_of(
    st.sampled_from(["", "0", "false", "null", "1e3", "~", "\u2028", "\x7f", "\t", "\U0001f600"]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0$"), max_size=8),
)
words = st.sampled_from(["a", "B_1", "NO", "true", "null", "on"])
paths = st.sampled_from(["a", "b/c", "no", "1"])
amounts = st.integers(MIB, 2**50)
cores = st.floats(0, 1024, exclude_min=True)
durations = st.floats(0, 3650 * 86400, exclude_min=True)
images = st.sampled_from(["mnist", "ghcr.io/acme/mnist:1.4", "localhost:5000/a/b", "a@sha256:" + "0" * 64])
labels = st.dictionaries(words, st.sampled_from(["", "0", "a.b-c"]), max_size=2)
plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**50), 2**50), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(words, inner, max_size=2)),
    max_leaves=5,
)


def optional(strategy):
    return st.none() | strategy


@st.composite
def resources(draw):
    cpu, memory = draw(optional(cores)), draw(optional(amounts))
    limits = Limits(
        cpu=draw(optional(st.floats(cpu or 1, 1024))), memory=draw(optional(st.integers(memory or MIB, 2**50)))
    )
    most = limits.memory or memory or 2**50
    gpu = draw(st.integers(0, 128))
    return Resources(
        cpu=cpu,
        memory=memory,
        limits=limits,
        gpu=gpu,
        gpu_resource=draw(st.sampled_from([None, "amd.com/gpu"])) if gpu else None,
        gpu_type=draw(optional(words)) if gpu else None,
        shared_memory=draw(optional(st.integers(MIB, most))),
    )


sources = st.one_of(
    st.builds(EnvSource, secret=names, key=words),
    st.builds(EnvSource, config_map=names, key=words),
    st.builds(EnvSource, field=st.sampled_from(["metadata.name", "metadata.labels['a/b']", "status.podIP"])),
)
env = st.dictionaries(words, texts | sources, max_size=2)
tolerations = st.one_of(
    st.builds(Toleration, key=words, value=st.none() | st.sampled_from(["", "0", "a"])),
    st.builds(Toleration, operator=st.just("Exists"), key=optional(words)),
    st.builds(Toleration, key=words, effect=st.just("NoExecute"), seconds=optional(durations)),
)


def volumes(folder):
    common = {"read_only": st.booleans(), "sub_path": optional(paths)}
    sourced = st.one_of(
        *(st.fixed_dictionaries({source: names, **common}) for source in ("pvc", "secret", "config_map")),
        st.fixed_dictionaries({"nfs": st.builds(Nfs, server=words, path=paths.map("/".__add__)), **common}),
        st.fixed_dictionaries({"host_path": paths.map("/".__add__), **common}),
        st.fixed_dictionaries({"empty_dir": amounts, "in_memory": st.booleans(), **common}),
    )
    mounted = st.dictionaries(paths, sourced, max_size=2)
    return mounted.map(lambda by: tuple(Volume(mount=f"/{folder}/{path}", **rest) for path, rest in by.items()))


def lists(strategy):
    return st.lists(strategy, max_size=2).map(tuple)


def shared(folder):
    """Return the strategies for what a job and a role have in common; their volumes lie in folders of their own."""
    return {
        "image": optional(images),
        "command": lists(texts).map(lambda rest: ("python", *rest)),
        "args": lists(texts),
        "working_dir": optional(words),
        "env": env,
        "volumes": volumes(folder),
        "node_selector": labels,
        "tolerations": lists(tolerations),
        "pod": st.fixed_dictionaries({}, optional={"spec": st.dictionaries(st.just("hostNetwork"), plain)}),
    }


def role(name):
    return st.builds(
        Role,
        replicas=st.just(1) if name in ("chief", "evaluator") else st.integers(1, 10_000),
        resources=optional(resources()),
        restart=optional(st.sampled_from(["on_failure", "exit_code"])),
        backoff_limit=st.none() | st.integers(0, 10_000),
        **shared(name),
    )


roles = st.sampled_from(
    [("worker",), ("chief",), ("chief", "worker"), ("chief", "worker", "ps", "evaluator"), ("worker", "evaluator")]
).flatmap(lambda have: st.builds(Roles, **{name: role(name) for name in ROLES if name in have}))


def below(total):
    return st.none() | st.floats(0, total, exclude_min=True)


deadlines = durations.flatmap(
    lambda total: st.builds(
        Deadlines, queue=below(total), pending=below(total), running=below(total), total=st.just(total)
    )
)
outputs = st.builds(
    Outputs,
    model=st.just("export"),
    logs=paths,
    metrics=st.dictionaries(words, words, max_size=2),
)
boards = st.builds(
    TensorBoard, log_dir=optional(paths), image=optional(images), keep_for=optional(durations), idle=optional(durations)
)
jobs = st.builds(
    TrainingJob,
    name=names,
    roles=roles,
    resources=resources(),
    labels=labels,
    annotations=st.dictionaries(words, texts, max_size=2),
    service_account=optional(names),
    image_pull_secrets=lists(names),
    image_pull_policy=st.sampled_from([None, "Always", "Never"]),
    restart=st.sampled_from(["on_failure", "always", "exit_code"]),
    backoff_limit=st.none() | st.integers(0, 10_000),
    deadlines=deadlines,
    output_dir=st.sampled_from([None, "runs", "/data/{name}/{run_id}/{task}", "a{{b}}"]),
    outputs=outputs,
    tensorboard=optional(boards),
    on_end=st.sampled_from([None, "keep", "delete_pods"]),
    keep_for=optional(durations),
    on_evicted=optional(durations | st.just(0.0)),
    queue=optional(words),
    cluster=optional(words),
    priority=st.none() | st.integers(0, 100),
    systems=st.sampled_from([{}, {"t9k": {"debug": True}}, {"local": {"grace": 2.5}, "jobs": {"suspend": False}}]),
    **shared("all"),
)
