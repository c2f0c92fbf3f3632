"""Submits pipelines: to Argo Workflows, to Kubeflow Pipelines, or to this machine."""
