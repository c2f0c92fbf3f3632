"""Text from outside: streams and terminals, tracebacks, time zones."""
