"""The `wait` component: follows the job of a `launch` step to its end, and hands on what it made."""
