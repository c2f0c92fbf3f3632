"""What `tfsteps init` writes: a job file, and the training program that it starts."""
