"""A soak of tfsteps on a real cluster: hundreds of jobs under faults, and a judge of all that they leave behind."""
