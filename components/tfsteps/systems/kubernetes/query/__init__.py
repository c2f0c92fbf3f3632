"""The jobs of all runs on a cluster."""
