"""What processes of this machine can do of what a job may ask for."""

from collections.abc import Mapping

from tfsteps.systems.capabilities import Capability, done, refused, unused

_NO_POD = unused("there is no pod")

CAPABILITIES: Mapping[str, Capability] = {
    "chief": done("a process"),
    "worker": done("a process each"),
    "ps": done("a process each, ended with the chief"),
    "evaluator": done("a process, outside TF_CONFIG's cluster"),
    "role_templates": done("commands, variables and limits of memory; images are not used"),
    "restart_never": done("by the supervisor"),
    "restart_on_failure": done("by the supervisor"),
    "restart_always": done("by the supervisor"),
    "restart_exit_code": done("by the supervisor: codes from 128 on"),
    "backoff_limit": done("by the supervisor"),
    "role_backoff_limit": done("by the supervisor"),
    "success_chief": done("by the supervisor"),
    "success_all_workers": done("by the supervisor"),
    "tf_config": done("ports of 127.0.0.1"),
    "env_sources": unused("there are no Secrets, ConfigMaps and pods"),
    "volumes": _NO_POD,
    "shared_memory": _NO_POD,
    "placement": _NO_POD,
    "pod_patch": _NO_POD,
    "gpu": unused("processes see all GPUs of the machine"),
    "gpu_type": unused("processes see all GPUs of the machine"),
    "queue": unused("there is none"),
    "priority": unused("there is none"),
    "gang": done("all processes are started at once"),
    "deadlines": done("by the launcher"),
    "keep_for": unused("nothing is removed by itself"),
    "on_end": unused("processes end with the job"),
    "on_evicted": unused("there is no pod to evict"),
    "pause": refused("processes end with their launcher; stop the run, and run it again with its --run-id"),
    "created_suspended": refused("nobody would resume it"),
    "hold": done("the command is replaced by a sleep"),
    "live_logs": done("from the processes"),
    "tensorboard": done("a TensorBoard process of the run"),
    "adopt": refused("processes end with their launcher"),
    "labels": unused("there is no object to label"),
}
