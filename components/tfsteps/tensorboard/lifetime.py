"""When a TensorBoard that nobody manages exits: it is idle, or its data is no longer new. Pure."""

import msgspec


class Lifetime(msgspec.Struct, kw_only=True):
    """The last signs of use of a TensorBoard; all times are seconds of one monotonic clock.

    Attributes:
        idle: Seconds without a request and without new event data after which it exits.
        keep_for: Seconds after the last new event data after which it exits, even if it is used.
        requested: When the last request came; the start counts as one.
        written: When new event data was last seen; the start counts as such a time.
    """

    idle: float
    keep_for: float
    requested: float
    written: float

    def remaining(self, now: float) -> float:
        """Return the seconds until it exits if nothing happens until then; 0 or less = now."""
        return min(max(self.requested, self.written) + self.idle, self.written + self.keep_for) - now

    def why(self, now: float) -> str:
        """Return why it exits, as a sentence; empty = it does not exit yet."""
        if now >= self.written + self.keep_for:
            return f"There was no new event data for {self.keep_for:.0f} s (keep_for)."
        if now >= max(self.requested, self.written) + self.idle:
            return f"There was no request and no new event data for {self.idle:.0f} s (idle)."
        return ""
