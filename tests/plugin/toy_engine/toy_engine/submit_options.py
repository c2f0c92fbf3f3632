"""The options of `tfsteps submit` that only this engine has. Loaded by each `submit`, so it imports little."""

from typing import Annotated

import msgspec

from tfsteps.engines.plugin import SubmitOption


class ToyOptions(msgspec.Struct, frozen=True):
    """The options, as their help describes them."""

    tries: Annotated[
        int,
        msgspec.Meta(ge=0, le=9, description="0 to 9"),
        SubmitOption(metavar="N", help="Tries of each step.", show_default="those of the pipeline"),
    ] = 0
