"""The description of notifications: who is told by a webhook about which events of a job."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

NotificationEvent = Literal["succeeded", "failed", "deadline", "cancelled", "paused", "resumed", "restarting"]
NotificationFormat = Literal["json", "slack"]

WEBHOOK_PREFIX = "TFSTEPS_WEBHOOK_"
"""Names of variables with the URL of a webhook begin with it: they are for launchers, and no replica gets them."""

WEBHOOK_VARIABLE = rf"^{WEBHOOK_PREFIX}[A-Z0-9_]{{1,40}}$"
"""The pattern of such a name."""

WEBHOOK_DEFAULT = f"{WEBHOOK_PREFIX}URL"
MAX_WEBHOOKS = 5

Variable = Annotated[
    str,
    Meta(
        pattern=WEBHOOK_VARIABLE,
        extra={"secret": True},
        description="TFSTEPS_WEBHOOK_ and 1 to 40 capital letters, digits and '_'",
        examples=[WEBHOOK_DEFAULT],
    ),
]


class _Base(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class WebhookUrl(_Base, frozen=True):
    """Source of a webhook's URL. The URL is a secret, so a job file cannot contain it.

    Attributes:
        env: Name of an environment variable of the launcher, not of the replicas, that contains the URL: http or
            https. Fill it from a Secret. If it is not set, the job runs without this webhook, with a warning.
    """

    env: Variable = WEBHOOK_DEFAULT


_URL = {"env": WEBHOOK_DEFAULT}


class Webhook(_Base, frozen=True):
    """A webhook: the launcher sends it an HTTP POST for each of the events.

    Delivery never changes the outcome of the job or step. At the end of the job the launcher waits at most 10 seconds
    for the last delivery.

    Attributes:
        url: Source of the URL.
        events: succeeded; failed (also lost); deadline = a deadline passed (then `failed` is not sent); cancelled;
            paused and resumed; restarting. Default failed and deadline.
        format: json = the notification of tfsteps; slack = a message as Slack's incoming webhooks take it.
    """

    url: Annotated[WebhookUrl, Meta(examples=[_URL], extra={"secret": True})] = WebhookUrl()
    events: Annotated[tuple[NotificationEvent, ...], Meta(examples=[["failed", "deadline"]])] = ("failed", "deadline")
    format: NotificationFormat = "json"


_WEBHOOK = {"url": _URL, "events": ["failed"], "format": "slack"}
Webhooks = Annotated[
    tuple[Annotated[Webhook, Meta(examples=[_WEBHOOK], extra={"secret": True})], ...],
    Meta(examples=[[_WEBHOOK]], extra={"secret": True}),
]
