"""The `notify` component: sends a notification of the end of a run to a webhook."""
