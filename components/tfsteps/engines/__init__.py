"""The pipeline engines: what each hands a step, what it expects back, and how its pipelines are written."""
