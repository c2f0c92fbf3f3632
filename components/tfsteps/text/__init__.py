"""Helpers for text: streams, terminals, tracebacks and time zones."""
