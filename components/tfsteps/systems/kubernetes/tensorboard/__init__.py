"""TensorBoards on a cluster: those that operators run beside their jobs, and those that tfsteps starts as a Job."""
