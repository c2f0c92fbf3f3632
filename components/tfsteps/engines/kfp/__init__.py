"""Kubeflow Pipelines. Only `component`, `local` and `step` need its SDK; launchers import neither."""
