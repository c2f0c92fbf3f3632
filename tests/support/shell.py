"""Shell scripts that replicas on a cluster run."""


def printing(script: str) -> str:
    """Return a script that prints, and that does not end before the container runtime has begun to read it.

    containerd may drop all that was printed by a container that ends within milliseconds of its start; its own log says
    "Failed to pipe stdout of container ...: reading from a closed fifo" then.
    """
    return f"trap 'sleep 0.2' EXIT; {script}"
