"""The first argument of a launcher in an Argo step."""

ARGUMENT = "--argo"
