"""CPU and memory of a job's replicas, recommended from what its earlier runs used; and written into its job file."""
