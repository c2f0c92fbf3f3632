"""The pipeline `train_and_finalize`: a `train` step and the `cleanup` behind it, as one step of other pipelines."""
