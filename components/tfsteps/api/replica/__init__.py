"""What is shipped beside a function and runs in replicas: it imports nothing of tfsteps."""
