"""Controllers for job systems whose own cannot be run: T9k's is not public, that of TfJob v1alpha1 is too old.

Written from what is documented of each, they do the documented things for real on the API server of a cluster: pods,
Services, Jobs, TF_CONFIG, restarts, limits, clean-up, status. What no document says is marked `Chosen:`.
"""
