"""The `evaluate_gate` component: compares a metric with a threshold, and so decides a branch."""
