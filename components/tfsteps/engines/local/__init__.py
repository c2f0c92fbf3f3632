"""Pipelines of Kubeflow Pipelines on this machine: each step is a process."""
