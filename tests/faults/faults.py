"""What can happen to a request on its way to the API server and back."""

import json
import random

from tests.faults.proxy import Exchange, Fault, forward

_SLOW_SECONDS = 1.5
_AWAY_SECONDS = 2.0


def reset_before(exchange: Exchange) -> None:
    """Break off; the API server never receives it."""
    exchange.reset()


def reset_after(exchange: Exchange) -> None:
    """Let it be done, and lose the answer, or all of it but its first part."""
    with exchange.answer() as response:
        response.read1(1)
    exchange.reset()


def delayed(exchange: Exchange) -> None:
    """Wait, then pass it on."""
    exchange.server.closed.wait(_SLOW_SECONDS)
    forward(exchange)


def half_open(exchange: Exchange) -> None:
    """Let it be done, and say nothing for ever; the connection stays open."""
    with exchange.answer():
        exchange.server.closed.wait()
    exchange.close_connection = True


def half_open_later(exchange: Exchange) -> None:
    """Answer as it should be up to the first part of the body, then say nothing for ever."""
    with exchange.answer() as response:
        exchange.begin(response)
        exchange.send(response.read1(1 << 16))
        exchange.server.closed.wait()
    exchange.close_connection = True


def refused(exchange: Exchange) -> None:
    """Break off, everything else too, and let nobody connect for a while."""
    exchange.reset()
    exchange.server.go_away(_AWAY_SECONDS)


def down(seconds: float) -> Fault:
    """Return the same for longer."""

    def fault(exchange: Exchange) -> None:
        exchange.reset()
        exchange.server.go_away(seconds)

    return fault


def down_later(seconds: float) -> Fault:
    """Return: answer as it should be up to the first part of the body, then the same."""

    def fault(exchange: Exchange) -> None:
        with exchange.answer() as response:
            exchange.begin(response)
            exchange.send(response.read1(1 << 16))
        exchange.server.go_away(seconds)

    return fault


def still(seconds: float) -> Fault:
    """Return: nothing moves for a while, on any connection, then all goes on where it was."""

    def fault(exchange: Exchange) -> None:
        exchange.server.stand_still(seconds)
        exchange.server.keep_still()
        forward(exchange)

    return fault


def status(code: int, **headers: str) -> Fault:
    """Return: refuse it with an HTTP status."""
    return lambda exchange: exchange.refuse(code, {name.replace("_", "-"): value for name, value in headers.items()})


def answered(kind: str, body: bytes) -> Fault:
    """Return: something else answers in the API server's place, with HTTP 200."""

    def fault(exchange: Exchange) -> None:
        exchange.send_response(200)
        exchange.send_header("Content-Type", kind)
        exchange.send_header("Content-Length", str(len(body)))
        exchange.end_headers()
        exchange.wfile.write(body)

    return fault


def cut(exchange: Exchange) -> None:
    """End the answer cleanly after its first part."""
    with exchange.answer() as response:
        exchange.begin(response)
        exchange.send(response.read1(1 << 16))
        exchange.send(b"")


def ended(exchange: Exchange) -> None:
    """End the answer cleanly before its first part."""
    with exchange.answer() as response:
        exchange.begin(response)
        exchange.send(b"")


def cut_inside(exchange: Exchange) -> None:
    """End the answer cleanly in the middle of its first line."""
    with exchange.answer() as response:
        exchange.begin(response)
        part = response.read1(1 << 16)
        exchange.send(part[: max(1, part.index(b"\n") // 2)] if b"\n" in part else part[:1])
        exchange.send(b"")


def torn(exchange: Exchange) -> None:
    """Break off in the middle of the first line of the answer."""
    with exchange.answer() as response:
        exchange.begin(response)
        part = response.read1(1 << 16)
        exchange.send(part[: len(part) // 2 or 1])
    exchange.reset()


def expired(exchange: Exchange) -> None:
    """Say in the stream that the version is too old, as the API server does."""
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
    _stream(exchange, {"type": "ERROR", "object": gone})


def old_bookmark(exchange: Exchange) -> None:
    """Send a bookmark of a version that is long gone, and end: the next watch asks for what nobody has."""
    _stream(exchange, {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "1"}}})


def _stream(exchange: Exchange, event: object) -> None:
    with exchange.answer() as response:
        exchange.begin(response)
    exchange.send(json.dumps(event).encode() + b"\n")
    exchange.send(b"")


def cue_before(exchange: Exchange) -> None:
    """Give the cue, then pass the request on, unless who sent it is no more."""
    if exchange.server.cue():
        forward(exchange)


def cue_after(exchange: Exchange) -> None:
    """Let it be done, and give the cue before the answer's second part is passed on, or before its end."""
    with exchange.answer() as response:
        first = response.read1(1 << 16)
        exchange.server.cue()
        exchange.begin(response)
        exchange.send(first)
        while part := response.read1(1 << 16):
            exchange.send(part)
        exchange.send(b"")


def cue_and(fault: Fault) -> Fault:
    """Return: give the cue, then do harm."""

    def both(exchange: Exchange) -> None:
        exchange.server.cue()
        fault(exchange)

    return both


def storm(exchange: Exchange) -> None:
    """Do any of the harmless-in-the-end things, by the proxy's dice."""
    dice: random.Random = exchange.server.dice
    options = (reset_before, reset_after, delayed, status(429, Retry_After="1"), status(500), status(503), status(504))
    dice.choice(options)(exchange)
