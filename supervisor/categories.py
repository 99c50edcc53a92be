"""Why a run failed, in seed 001's four words. The rules are documented in docs/reference/runs.md.

Transient is what may go better in a moment; only that is tried again. Permanent will go wrong again until somebody
changes the agent. Agent error is the program's own. System error is ours.
"""

import errno
import re

from supervisor.choices import ErrorCategory

#: sysexits.h: "temporary failure, the user is invited to retry".
EX_TEMPFAIL = 75
#: What a run for a task ends with whose answer is a question: the first code that sysexits.h leaves free.
ASKS = 79
#: What a shell, or a program that starts others, says when it could not start one.
NOT_STARTABLE = frozenset({126, 127})
PASSING_ERRORS = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY, errno.EINTR})
OUR_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})
PASSING_WORDS = re.compile(
    r"connection (?:refused|reset|aborted|timed out)|temporar(?:y|ily) (?:failure|unavailable)|network is unreachable"
    r"|no route to host|name resolution|could not resolve host|broken pipe|service unavailable|too many requests"
    r"|try again later",
    re.IGNORECASE,
)
#: How much of the end of its errors is looked at.
LOOKED_AT = 4096


def of_start(number: int) -> ErrorCategory:
    """Of a program that could not be started."""
    if number in PASSING_ERRORS:
        return ErrorCategory.TRANSIENT
    return ErrorCategory.SYSTEM_ERROR if number in OUR_ERRORS else ErrorCategory.PERMANENT


def of_exit(code: int | None, errors: str) -> ErrorCategory:
    """Of a program that ended otherwise than with 0; no code means that a signal ended it."""
    if code is None:
        return ErrorCategory.AGENT_ERROR
    if code == EX_TEMPFAIL or PASSING_WORDS.search(errors[-LOOKED_AT:]):
        return ErrorCategory.TRANSIENT
    return ErrorCategory.PERMANENT if code in NOT_STARTABLE else ErrorCategory.AGENT_ERROR
