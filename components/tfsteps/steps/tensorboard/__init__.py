"""The `tensorboard` component: serves the event files of a run in TensorBoard."""
