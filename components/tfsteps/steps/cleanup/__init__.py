"""The `cleanup` component: a finalizer, which removes what the jobs of its run left."""
