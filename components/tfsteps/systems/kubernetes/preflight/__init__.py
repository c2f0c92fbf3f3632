"""What can be known to be impossible on a cluster before anything is created."""
