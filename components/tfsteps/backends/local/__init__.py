"""The backend of this machine."""
