"""Renders a job description as pods and job objects. Pure."""
