"""What removes jobs: finalizer, retention and keeper."""
