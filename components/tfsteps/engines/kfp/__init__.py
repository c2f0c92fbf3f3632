"""Kubeflow Pipelines. Only `component`, `local` and `sdk` import its SDK; launchers import none of them."""

ARGUMENT = "--executor_input"
