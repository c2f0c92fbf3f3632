"""The records of a run: identity, events, status, the run folder and the log file."""
