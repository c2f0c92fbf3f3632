"""Programs for version 1 of Kubeflow Pipelines: the errors with which kfp 2 refuses them, and what to do."""

import re

_MIGRATION = "https://www.kubeflow.org/docs/components/pipelines/user-guides/migration/"
_NAMES = {
    # of kfp, kfp.dsl, kfp.components and kfp.compiler
    *("ContainerOp", "ResourceOp", "VolumeOp", "VolumeSnapshotOp", "PipelineVolume", "PipelineParam", "Sidecar"),
    *("UserContainer", "InputArgumentPath", "ExitHandlerOp", "get_pipeline_conf", "PipelineConf", "python_component"),
    *("RUN_ID_PLACEHOLDER", "EXECUTION_ID_PLACEHOLDER", "func_to_container_op", "create_component_from_func"),
    *("func_to_component_text", "create_graph_component_from_pipeline_func", "build_python_component"),
    *("PipelineExecutionMode", "run_pipeline_func_locally", "onprem", "gcp", "aws", "azure", "containers", "notebook"),
    # of tasks
    *("apply", "container", "add_volume", "add_pvolumes", "add_env_variable", "add_toleration", "add_affinity"),
    *("add_node_selector_constraint", "add_pod_label", "add_pod_annotation", "add_init_container", "add_sidecar"),
    *("set_timeout", "set_image_pull_policy", "execution_options", "add_volume_mount", "set_security_context"),
}
_CANNOT_IMPORT = re.compile(r"cannot import name '(\w+)' from 'kfp\b")
_OF_TASKS = re.compile(r"'PipelineTask' object has no attribute '(\w+)'")
_OF_MODULES = re.compile(r"module 'kfp\b[\w.]*' has no attribute '(\w+)'")


def program_fix(error: BaseException) -> str:
    """Return what to do about an error of a program for version 1; empty if the error is another one."""
    match = next(
        filter(None, (pattern.match(str(error)) for pattern in (_CANNOT_IMPORT, _OF_TASKS, _OF_MODULES))), None
    )
    if not isinstance(error, AttributeError | ImportError) or not match or match[1] not in _NAMES:
        return ""
    return (
        f"{match[1]} is of KFP 1, and kfp 2 does not have it: launch jobs with tfsteps.kfp.train, write other steps "
        f"with @dsl.component or @dsl.container_component, and see {_MIGRATION}"
    )
