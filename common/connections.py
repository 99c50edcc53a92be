"""Database connections that belong to one thread, outside the pool that requests share."""

from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.utils import load_backend


def use_unpooled_connection() -> None:
    """Give this thread a connection outside the pool. A long-lived thread then takes no connection away from requests,
    and settings made on its connection never reach another thread."""
    if "pool" not in connection.settings_dict["OPTIONS"]:
        return
    connection.close()
    unpooled_settings = {**connection.settings_dict}
    unpooled_settings["OPTIONS"] = {
        name: value for name, value in unpooled_settings["OPTIONS"].items() if name != "pool"
    }
    connections[DEFAULT_DB_ALIAS] = load_backend(unpooled_settings["ENGINE"]).DatabaseWrapper(
        unpooled_settings, DEFAULT_DB_ALIAS
    )
