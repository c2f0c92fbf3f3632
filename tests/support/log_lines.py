"""Lines of a log file, written one by one."""

from tfsteps.runs import log_file


def log_line(at, source, text):
    """Return a line of a log file, with its end."""
    return b"%b %b %b\n" % (log_file.stamp(at), source.encode(), text)
