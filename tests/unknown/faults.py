"""What may happen to a request."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.unknown.server import Answer

OUTAGE_SECONDS = 8.0
SLOW_SECONDS = 1.0
_PAGE = b"<html>\n<body>Please log in.</body>\n</html>\n"


@dataclass(frozen=True)
class Fault:
    """One kind of harm.

    Attributes:
        harm: Takes the server, the connection and the request; tells whether the connection may carry another one.
        transient: A launcher must get over it as if nothing had happened.
        changes: Only for requests that change something.
    """

    harm: Callable[..., Awaitable[bool]]
    transient: bool = True
    changes: bool = False


def _status(status, **headers):
    async def harm(server, connection, request):
        answer = server.refusal(request, status)
        answer.headers |= {name.replace("_", "-"): text for name, text in headers.items()}
        return await connection.send(answer)

    return harm


def _answered(kind, body):
    async def harm(_server, connection, _request):
        return await connection.send(Answer(body=body, headers={"Content-Type": kind}))

    return harm


async def _reset(_server, connection, _request):
    connection.reset()
    return False


async def _lost_answer(server, connection, request):
    await server.answer(request)
    connection.reset()
    return False


async def _time_out(_server, connection, _request):
    await connection.hang()
    return False


async def _slow(server, connection, request):
    await asyncio.sleep(SLOW_SECONDS)
    return await connection.send(await server.answer(request))


async def _outage(server, _connection, _request):
    server.go_away(OUTAGE_SECONDS)
    return False


FAULTS = {
    "429": Fault(_status(429, Retry_After="1")),
    "500": Fault(_status(500)),
    "403": Fault(_status(403), transient=False),
    "404": Fault(_status(404), transient=False),
    "reset": Fault(_reset),
    "answer lost": Fault(_lost_answer, changes=True),
    "time-out": Fault(_time_out),
    "slow": Fault(_slow),
    "{}": Fault(_answered("application/json", b"{}")),
    "log-in page": Fault(_answered("text/html", _PAGE)),
    "outage": Fault(_outage),
}
