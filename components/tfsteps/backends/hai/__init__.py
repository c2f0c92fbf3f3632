"""The backend of HAI Platform."""
