"""What people see on a terminal: the live view, tables, statuses and warnings."""
