"""What an error is in HTTP on every page, plain or of the console. The API's edge adds codes in a table of its own."""

from common.errors import Conflict, GatehouseError, InvalidInput, NotAllowed, NotFound, RateLimited, RecordUnavailable

HTTP_STATUSES: dict[type[GatehouseError], int] = {
    NotFound: 404,
    NotAllowed: 403,
    InvalidInput: 400,
    Conflict: 409,
    RateLimited: 429,
    RecordUnavailable: 503,
}
#: A refusal of a kind that is not named here: nothing was changed.
DEFAULT_HTTP_STATUS = 409


def status_for(error: GatehouseError) -> int:
    return next((number for kind, number in HTTP_STATUSES.items() if isinstance(error, kind)), DEFAULT_HTTP_STATUS)
