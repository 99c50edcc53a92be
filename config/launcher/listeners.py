"""Listening sockets that the launcher opens and hands over."""

import socket


class PortTaken(Exception):
    """Another process listens there, or the address is not this machine's."""


def listen(address: str, port: int, setting: str) -> socket.socket:
    """A socket that listens there; `setting` is what the message names as the way to choose another port."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        listener = socket.create_server((address, port), family=family, backlog=2048)
    except OSError as error:
        raise PortTaken(f"Port {port} cannot be had ({error.strerror}). Choose another with {setting}.") from error
    # Linux lets accepted connections inherit it, whatever server accepts them.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
