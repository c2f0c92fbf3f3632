"""The pipeline `train_and_finalize`: a `train` step followed by `cleanup`, as one step of other pipelines."""
