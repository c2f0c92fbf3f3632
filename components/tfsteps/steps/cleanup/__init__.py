"""The `cleanup` component: a finalizer, which cleans up the jobs of its run."""
