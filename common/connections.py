"""Connections that a thread keeps for itself, beside the pool that requests share."""

from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.utils import load_backend


def use_unpooled_connection() -> None:
    """This thread's connection is its own from here on: kept, it takes none away from requests, and what is set on it
    is never handed on to somebody else."""
    if "pool" not in connection.settings_dict["OPTIONS"]:
        return
    connection.close()
    own = {**connection.settings_dict}
    own["OPTIONS"] = {name: value for name, value in own["OPTIONS"].items() if name != "pool"}
    connections[DEFAULT_DB_ALIAS] = load_backend(own["ENGINE"]).DatabaseWrapper(own, DEFAULT_DB_ALIAS)
