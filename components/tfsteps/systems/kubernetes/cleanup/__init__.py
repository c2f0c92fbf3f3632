"""Removal of jobs: finalizer, retention and keeper."""
