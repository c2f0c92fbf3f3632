"""The options that choose a place where runs live."""

from typing import Annotated

import typer

from tfsteps.backends.place import On

OnOption = Annotated[
    On | None,
    typer.Option(
        "--on",
        help="Where to look: the records of this machine, a cluster, or HAI Platform.",
        show_default="local; hai for a run that this machine records there",
    ),
]
Context = Annotated[
    str, typer.Option(metavar="NAME", help="Context of the kubeconfig, for --on kubernetes.", show_default="current")
]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace", "-n", metavar="NAME", help="Namespace, for --on kubernetes.", show_default="the context's"
    ),
]
From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="ADDRESS",
        help="Look in the stored records at s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, mlflow or a folder, nowhere else.",
        show_default=False,
    ),
]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Look in all of them.")]
