"""What a run leaves, and how it is found: identity, events, status, the run folder and the log file."""
