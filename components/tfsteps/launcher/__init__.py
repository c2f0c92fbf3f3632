"""What the process of a step does with a job: create or adopt it, follow it to its end, report it."""
