"""Ports: chosen together, and seen when somebody listens there."""

import socket

from tfsteps.systems.local.ports import free_ports, serving


def test_free_ports_are_different_and_free():
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        with socket.socket() as server:
            server.bind(("127.0.0.1", port))


def test_a_listener_is_seen_whoever_else_listens():
    others = [socket.create_server(("127.0.0.1", 0)) for _ in range(30)]
    free = free_ports(1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert serving([port, *free], reached=False) == {port}
        assert serving([port, *free], reached=True) == {port}
    assert serving([port], reached=True) == set()
    for other in others:
        other.close()


def test_a_program_that_accepts_its_peer_and_stops_listening_was_reached():
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    with socket.create_connection(("127.0.0.1", port)):
        accepted, _ = listener.accept()
        listener.close()
        with accepted:
            assert serving([port], reached=False) == set()
            assert serving([port], reached=True) == {port}
