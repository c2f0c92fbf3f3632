"""The options of `tfsteps submit` that only local runs have."""

from typing import Annotated

import msgspec

from tfsteps.engines.plugin import SubmitOption

_INSTEAD = "on a cluster, add a `tensorboard` step to the pipeline"


class LocalSubmitOptions(msgspec.Struct, frozen=True):
    """The options, as their help describes them."""

    installed: Annotated[
        tuple[str, ...],
        SubmitOption(metavar="IMAGE", help="An image whose programs are installed here. Repeatable."),
    ] = ()
    tensorboard: Annotated[bool, SubmitOption(help="A TensorBoard for the jobs.", instead=_INSTEAD)] = False
    keep_tensorboard: Annotated[
        bool, SubmitOption(help="A TensorBoard that stays up at the end, until Ctrl-C.", instead=_INSTEAD)
    ] = False
