"""From what the API server tells of a job to its events, its logs and its end."""
