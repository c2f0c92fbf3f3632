"""The `launch` component: creates one distributed TensorFlow job, or adopts it, and exits."""
