"""Messages for callers where the log holds a message for operators.

The log describes a server's fault for operators, with paths, names of settings, hosts and messages of the operating
system. Agents pass messages on to models and to other agents. Callers therefore get a fixed sentence, the reason and
the request id, by which an operator finds the log row.
"""

from typing import Any

from mcp.protocol.upstream_errors import FaultCode, UpstreamError, UpstreamFault
from nhi.choices import CallStatus

#: Key in a log row's `details` of the message that the caller got instead of the row's `error_message`.
PUBLIC_MESSAGE = "public_message"
#: For rows that were written before the caller's message was stored with them.
UNKNOWN_FAULT_MESSAGE = "The call failed at the server of this tool."
FAULT_MESSAGES: dict[FaultCode, str] = {
    "unreachable": "The server of this tool cannot be reached.",
    "timeout": "The server of this tool did not answer in time.",
    "closed": "The server of this tool closed the connection before it answered.",
    "protocol": "The server of this tool sent an answer that breaks the protocol.",
    "http_status": "The server of this tool refused the request or failed.",
    "too_large": "The message is larger than Gatehouse exchanges with the server of this tool.",
    "auth": "The server of this tool does not accept Gatehouse's credentials.",
    "not_running": "The server of this tool is not running.",
    "unsupported": "The server of this tool asks for more input (input_required), which Gatehouse does not pass on.",
}


def fault_message(fault: UpstreamFault) -> str:
    effect = "The call may have had an effect." if fault.sent else "The call was not sent."
    return f"{FAULT_MESSAGES[fault.code]} {effect}"


def error_message(error: UpstreamError) -> str:
    return f"The server of this tool answered with an internal error (JSON-RPC code {error.code})."


def add_request_id(message: str, request_id: Any) -> str:
    return f"{message} An operator finds the cause by the request id {request_id}."


def row_message(row: Any) -> str:
    """Return the message of a log row that its caller may read."""
    stored = row.details.get(PUBLIC_MESSAGE)
    if stored:
        return str(stored)
    if row.status == CallStatus.ERROR and row.reason == "upstream" and row.error_message:
        return add_request_id(UNKNOWN_FAULT_MESSAGE, row.request_id)
    return str(row.error_message)
