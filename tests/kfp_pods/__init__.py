"""Steps in pods as the driver and launcher of Kubeflow Pipelines make them, on a real cluster.

The back end itself is not part of the test cluster. What it does to a pod was observed on a real one (2.15).
"""
