"""The options of `tfsteps submit` that only Kubeflow Pipelines has."""

from typing import Annotated

import msgspec

from tfsteps.engines.plugin import SubmitOption
from tfsteps.spec.fields import Filled


class KubeflowSubmitOptions(msgspec.Struct, frozen=True):
    """The options, as their help describes them."""

    experiment: Annotated[Filled, SubmitOption(metavar="NAME", help="Experiment of the runs.")] = "Default"
    server_timezone: Annotated[
        str, SubmitOption(scheduled=True, metavar="ZONE", help="CRON_SCHEDULE_TIMEZONE of its server.")
    ] = "UTC"
