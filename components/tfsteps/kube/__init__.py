"""The only code that speaks to the Kubernetes API: access, requests, list-watch, pod logs. It knows no job system."""
