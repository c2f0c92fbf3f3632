"""The `wait` component: follows the job of a `launch` step to its end, and returns its outputs."""
