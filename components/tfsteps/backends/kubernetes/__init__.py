"""The backend of a cluster."""
