"""What `tfsteps init` writes: for each template a job file, and the training program that it starts."""
