"""The `train` component: runs one distributed TensorFlow job, waits for its end, and hands on what it made."""
