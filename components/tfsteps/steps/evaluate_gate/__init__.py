"""The `evaluate_gate` component: compares a metric with a threshold, to decide a branch."""
