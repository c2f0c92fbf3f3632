"""TensorBoard over a job's event files: `process` runs it as a child, `server` is that child's program."""
