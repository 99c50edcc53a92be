"""The HTTP status of an error on plain pages and console pages. The REST API has a table of its own."""

from common.errors import Conflict, GatehouseError, InvalidInput, NotAllowed, NotFound, RateLimited, RecordUnavailable

HTTP_STATUSES: dict[type[GatehouseError], int] = {
    NotFound: 404,
    NotAllowed: 403,
    InvalidInput: 400,
    Conflict: 409,
    RateLimited: 429,
    RecordUnavailable: 503,
}
#: For errors that are not in the table: the operation was refused and nothing was changed.
DEFAULT_HTTP_STATUS = 409


def status_for(error: GatehouseError) -> int:
    return next(
        (status for error_class, status in HTTP_STATUSES.items() if isinstance(error, error_class)), DEFAULT_HTTP_STATUS
    )
