"""Kubeflow Pipelines. Only `component`, `local` and `sdk` need its SDK; launchers import none of them."""
