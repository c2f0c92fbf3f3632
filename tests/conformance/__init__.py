"""What every job system must do, tried on a real cluster."""
