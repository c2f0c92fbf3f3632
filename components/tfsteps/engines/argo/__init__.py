"""Argo Workflows: what it hands a step, and the templates, manifests and checks of its authors."""

ARGUMENT = "--argo"
