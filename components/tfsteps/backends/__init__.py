"""Where runs live: on this machine, on a cluster, on a platform."""
