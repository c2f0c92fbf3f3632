"""The launcher of a job: it creates or adopts the job, follows it to its end, and reports the result."""
