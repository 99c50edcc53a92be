"""What an error is in HTTP on every page, plain or of the console. The API's edge adds codes in a table of its own."""

from common.errors import Conflict, GatehouseError, Invalid, Limited, NotAllowed, NotFound, RecordUnavailable

STATUS: dict[type[GatehouseError], int] = {
    NotFound: 404,
    NotAllowed: 403,
    Invalid: 400,
    Conflict: 409,
    Limited: 429,
    RecordUnavailable: 503,
}
#: A refusal of a kind that is not named here: nothing was changed.
OTHER = 409


def of(error: GatehouseError) -> int:
    return next((number for kind, number in STATUS.items() if isinstance(error, kind)), OTHER)
