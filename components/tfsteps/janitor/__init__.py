"""The janitor: removes what launchers that are no more have left on a cluster, and what was kept long enough."""
