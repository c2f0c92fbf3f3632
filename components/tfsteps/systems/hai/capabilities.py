"""What HAI Platform can do of what a job may ask for."""

from collections.abc import Mapping

from tfsteps.systems.capabilities import Capability, done, native, refused, unused

CAPABILITIES: Mapping[str, Capability] = {
    "chief": done("rank 0; the wrapper makes roles of ranks"),
    "worker": done("a rank each, which is a whole node"),
    "ps": done("a rank each; the wrapper ends them when the deciding replica is done"),
    "evaluator": done("the last rank, outside TF_CONFIG's cluster"),
    "role_templates": refused("a task has one image and whole nodes; command, args, env and folder may differ by role"),
    "restart_never": native("a rank that fails ends the task"),
    "restart_on_failure": done("the wrapper starts programs again in place; HAI restarts only what it interrupted"),
    "restart_always": done("the wrapper starts programs again in place"),
    "restart_exit_code": done("the wrapper starts programs again whose code is 128 or above"),
    "backoff_limit": done("counted by the wrapper; interruptions by HAI do not count"),
    "role_backoff_limit": done("counted by the wrapper"),
    "success_chief": done("the wrapper ends the other ranks when rank 0's program has succeeded"),
    "success_all_workers": done("the wrapper waits for them"),
    "tf_config": done("the ranks' wrappers exchange their addresses over rank 0"),
    "env_sources": refused("HAI knows no Secrets, ConfigMaps and pod fields"),
    "volumes": refused("the platform's own table says what is mounted"),
    "shared_memory": refused("it is as large as the platform makes it"),
    "placement": refused("nodes are chosen by group"),
    "pod_patch": refused("pods are made by the platform alone"),
    "gpu": refused("the unit is a whole node with all its GPUs"),
    "gpu_type": refused("the unit is a whole node; kinds of nodes are groups"),
    "queue": native("the group of nodes"),
    "priority": native("seven levels; none = AUTO"),
    "gang": native("all nodes of a task are granted together"),
    "deadlines": done("by the launcher; `total` is the task's timeout, too"),
    "keep_for": unused("ranks are gone at the end, and records of tasks cannot be removed"),
    "on_end": unused("ranks are gone at the end, and records of tasks cannot be removed"),
    "on_evicted": unused("nobody would end the task after the time"),
    "pause": done("the task is stopped, and resumed later"),
    "created_suspended": done("the task is stopped as soon as it is created"),
    "hold": done("the command is replaced by a sleep"),
    "live_logs": native("the log of every rank, asked for again and again"),
    "tensorboard": refused("HAI has no TensorBoard"),
    "adopt": done("by name and tags"),
    "labels": native("tags"),
}
