"""Names in the metadata of gRPC: which headers it can carry, and where the details of a status are."""

import re

DETAILS = "grpc-status-details-bin"
KEY = re.compile(r"(?!grpc-)[0-9a-z_.-]+(?<!-bin)", re.IGNORECASE)


def is_key(name: str) -> bool:
    return KEY.fullmatch(name) is not None
