"""The cluster of this process: that of its pod, else that of a kubeconfig."""

import os
import pathlib

from tfsteps.kube.credentials import Access, AccessError, token_of_file

SERVICE_ACCOUNT = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")


def in_cluster() -> bool:
    """Tell whether this process runs in a pod with a service account."""
    return "KUBERNETES_SERVICE_HOST" in os.environ and (SERVICE_ACCOUNT / "token").exists()


def find(context: str = "") -> Access:
    """Return the cluster of this pod; outside of pods, or with a `context`, the kubeconfig's.

    Raises:
        AccessError: There is none, or its settings cannot be used.
    """
    if in_cluster() and not context:
        return _from_pod()
    from tfsteps.kube import kubeconfig  # noqa: PLC0415  a launcher in a pod has none

    return kubeconfig.find(context)


# --- in a pod


def _from_pod() -> Access:
    import ssl  # noqa: PLC0415  it takes longer to load than all else here, and a check of a job needs it not

    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    try:
        namespace = (SERVICE_ACCOUNT / "namespace").read_text().strip()
        tls = ssl.create_default_context(cafile=str(SERVICE_ACCOUNT / "ca.crt"))
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        raise AccessError(f"the pod's service account in {SERVICE_ACCOUNT} cannot be used: {error}") from error
    return Access(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        namespace=namespace,
        tls=tls,
        token=token_of_file(SERVICE_ACCOUNT / "token", f"{SERVICE_ACCOUNT}/token"),
        name="this cluster",
        in_pod=True,
    )
