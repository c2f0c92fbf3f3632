"""What tells clusters apart."""

import ssl

import trustme

from tfsteps.kube.credentials import Access


def access(authority=None, server="https://10.0.0.1:443"):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if authority else None
    if authority:
        authority.configure_trust(context)
    return Access(server, "ns", context, str, "a cluster")


def test_a_cluster_is_known_by_its_authority_and_without_one_by_its_address():
    one, other = trustme.CA(), trustme.CA()
    assert access(one).cluster_id == access(one, "https://kube.example:6443").cluster_id
    assert access(one).cluster_id != access(other).cluster_id
    assert access().cluster_id != access(server="http://other").cluster_id
