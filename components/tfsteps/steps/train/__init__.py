"""The `train` component: runs one distributed TensorFlow job, waits for its end, and returns its outputs."""
