"""The pipeline that a launcher is a step of, as Kubernetes knows it: its pod and its Workflow."""
