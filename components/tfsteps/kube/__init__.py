"""The client of the Kubernetes API: access, requests, list-watch, pod logs. Independent of job systems."""
