"""What only T9k and TfJob v1alpha1 know, on a real cluster with the test controllers."""
