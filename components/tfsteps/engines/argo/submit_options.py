"""The options of `tfsteps submit` that only Argo Workflows has."""

import enum
from typing import Annotated

import msgspec

from tfsteps.engines.plugin import SubmitOption
from tfsteps.image import IMAGE
from tfsteps.spec.fields import Image


class Scheduler(enum.StrEnum):
    """The values of `--scheduler`."""

    CRONWORKFLOW = "cronworkflow"
    CRONJOB = "cronjob"
    JANITOR = "janitor"


class ArgoSubmitOptions(msgspec.Struct, frozen=True):
    """The options, as their help describes them."""

    scheduler: Annotated[
        Scheduler | None,
        SubmitOption(
            scheduled=True,
            help="What starts the runs of a schedule. The janitor keeps rules that the others cannot.",
            show_default="cronworkflow, or janitor if only it can",
        ),
    ] = None
    image: Annotated[
        Image,
        SubmitOption(
            scheduled=True,
            metavar="IMAGE",
            help="For a CronJob: image of the pod that submits the runs; it contains tfsteps.",
        ),
    ] = IMAGE
