"""The client of Kubeflow Pipelines, with errors for users."""

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from tfsteps.console.errors import CommandError
from tfsteps.launcher.exit_codes import ExitCode

_PAGE = 100


def is_configured(host: str) -> bool:
    """Tell whether `--host` or the environment names the API; otherwise the client asks the kubeconfig."""
    return bool(host or os.environ.get("KF_PIPELINES_ENDPOINT"))


@contextlib.contextmanager
def open_client(host: str, context: str) -> Iterator[Any]:
    """Yield the client; raise CommandError if the server refuses a request.

    Args:
        host: The address of the API; empty = $KF_PIPELINES_ENDPOINT, or what the kubeconfig leads to.
        context: A context of the kubeconfig; empty = the current one.
    """
    try:
        import kfp  # noqa: PLC0415  takes half a second, and is not always installed
        import kfp_server_api  # type: ignore[import-untyped]  # noqa: PLC0415
        import urllib3.exceptions  # noqa: PLC0415
    except ImportError as error:
        raise CommandError(f"Kubeflow's client is not installed ({error}); install tfsteps[kfp]") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # says that the client only supports version 2
            client = kfp.Client(host=host or None, kube_context=context or None)
        yield client
    except kfp_server_api.ApiException as error:
        code = ExitCode.USAGE if error.status and 400 <= error.status < 500 else ExitCode.PLATFORM
        raise CommandError(f"Kubeflow Pipelines refused: {error.status} {error.body or error.reason}", code) from error
    except (urllib3.exceptions.HTTPError, TimeoutError) as error:
        message = f"Kubeflow Pipelines cannot be reached: {error}; give --host, or set KF_PIPELINES_ENDPOINT"
        raise CommandError(message, ExitCode.PLATFORM) from error
    except ValueError as error:  # from the checks of the client
        raise CommandError(f"Kubeflow's client refused: {error}") from error


def pages(listing: Callable[..., Any], field: str, **options: Any) -> Iterator[Any]:
    """Yield what a listing of the client has, the newest first.

    Args:
        listing: The client's function, such as `list_runs`.
        field: The name of the list in its answers.
        **options: Its arguments, but for those of pages.
    """
    token = ""
    while True:
        page = listing(page_token=token, page_size=_PAGE, sort_by="created_at desc", **options)
        yield from getattr(page, field) or []
        token = page.next_page_token or ""
        if not token:
            return
