"""Platforms with job systems of their own; each package knows the core, and the core finds it by its plugin."""
