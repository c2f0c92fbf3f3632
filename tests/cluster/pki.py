"""The cluster's certificates and kubeconfigs, made with openssl."""

import subprocess
from pathlib import Path

from .paths import API_PORT, API_SERVICE_IP, NODE, NODE_IP, STATE

PKI = STATE / "pki"

# name: (subject, alternative names). Kubernetes reads the user from CN and the groups from O.
_CERTIFICATES = {
    "apiserver": (
        "/CN=kube-apiserver",
        f"DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:{API_SERVICE_IP},IP:{NODE_IP}",
    ),
    "kubelet-client": ("/O=system:masters/CN=apiserver-kubelet-client", "DNS:apiserver"),
    "admin": ("/O=system:masters/CN=admin", "DNS:admin"),
    "controller-manager": ("/CN=system:kube-controller-manager", "DNS:controller-manager"),
    "scheduler": ("/CN=system:kube-scheduler", "DNS:scheduler"),
    "proxy": ("/CN=system:kube-proxy", "DNS:proxy"),
    "node": (f"/O=system:nodes/CN=system:node:{NODE}", f"DNS:{NODE},IP:{NODE_IP},IP:127.0.0.1"),
}
_KUBECONFIGS = ("admin", "controller-manager", "scheduler", "proxy", "node")


def _openssl(*args: str | Path) -> None:
    subprocess.run(["openssl", *map(str, args)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _key_request(name: str, subject: str, *more: str | Path) -> None:
    _openssl(
        "req",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-keyout",
        PKI / f"{name}.key",
        "-subj",
        subject,
        *more,
    )


def _certificate(name: str, subject: str, names: str) -> None:
    extensions = PKI / f"{name}.ext"
    extensions.write_text(f"subjectAltName={names}\nextendedKeyUsage=clientAuth,serverAuth\n")
    _key_request(name, subject, "-out", PKI / f"{name}.csr")
    _openssl(
        "x509",
        "-req",
        "-in",
        PKI / f"{name}.csr",
        "-CA",
        PKI / "ca.crt",
        "-CAkey",
        PKI / "ca.key",
        "-CAcreateserial",
        "-days",
        "3650",
        "-out",
        PKI / f"{name}.crt",
        "-extfile",
        extensions,
    )


def _kubeconfig(user: str) -> str:
    return f"""apiVersion: v1
kind: Config
clusters: [{{name: tfsteps, cluster: {{server: "https://127.0.0.1:{API_PORT}", certificate-authority: {PKI}/ca.crt}}}}]
users: [{{name: {user}, user: {{client-certificate: {PKI}/{user}.crt, client-key: {PKI}/{user}.key}}}}]
contexts: [{{name: tfsteps, context: {{cluster: tfsteps, user: {user}}}}}]
current-context: tfsteps
"""


def make() -> None:
    """Make the authority, every certificate, the service-account key and the kubeconfigs, once."""
    if (PKI / "done").exists():
        return
    PKI.mkdir(parents=True, exist_ok=True, mode=0o700)
    _key_request("ca", "/CN=tfsteps-test-cluster", "-x509", "-days", "3650", "-out", PKI / "ca.crt")
    for name, (subject, names) in _CERTIFICATES.items():
        _certificate(name, subject, names)
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", PKI / "service-account.key")
    _openssl("ec", "-in", PKI / "service-account.key", "-pubout", "-out", PKI / "service-account.pub")
    for user in _KUBECONFIGS:
        path = STATE / f"{user}.kubeconfig"
        path.write_text(_kubeconfig(user))
        path.chmod(0o600)
    (PKI / "done").touch()
