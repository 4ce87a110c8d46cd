"""Which nodes answer."""

from __future__ import annotations

import socket

from framework.parallel.nodes import answering


def test_who_takes_a_connection():
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
    ):
        open_ports = [one.getsockname(), two.getsockname()]
        with socket.create_server(("127.0.0.1", 0)) as closed:
            refused = closed.getsockname()
        nowhere = ("192.0.2.1", 9)  # of a network for documentation
        assert answering([open_ports[0], refused, nowhere, open_ports[1]], 0.5) == {0, 3}
    assert answering([], 0.5) == set()
