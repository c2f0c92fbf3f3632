"""What the readers of job systems share: the fields of a manifest, and the job file that it becomes. Pure."""
