"""The closed vocabularies of tasks between agents, and the moves between states."""

from django.db.models import TextChoices


class TaskState(TextChoices):
    """The eight states of the A2A protocol, which is what is stored."""

    SUBMITTED = "submitted", "Submitted"
    WORKING = "working", "Working"
    INPUT_REQUIRED = "input_required", "Needs input"
    AUTH_REQUIRED = "auth_required", "Needs sign-in"
    COMPLETED = "completed", "Completed"
    FAILED = "failed", "Failed"
    CANCELED = "canceled", "Cancelled"
    REJECTED = "rejected", "Rejected"


class Word(TextChoices):
    """The five words of the REST contract, which are a projection of the states."""

    PENDING = "pending", "Pending"
    RUNNING = "running", "Running"
    COMPLETED = "completed", "Completed"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


class Role(TextChoices):
    """Who says a message: the side that asks, or the agent."""

    USER = "user", "Caller"
    AGENT = "agent", "Agent"


class EventKind(TextChoices):
    TASK = "task", "Task"
    STATUS = "status", "Status"
    ARTIFACT = "artifact", "Artifact"
    MESSAGE = "message", "Message"


class RuntimeKind(TextChoices):
    """What stands behind an agent and does its tasks."""

    INBOX = "inbox", "Its own workers"
    CLI = "cli", "A program"
    MODEL = "model", "A model"
    REMOTE = "remote", "Another A2A server"


class WireVersion(TextChoices):
    """Which version of the protocol a remote server is spoken to in."""

    AUTO = "auto", "As its card says"
    V1 = "1.0", "1.0"
    V03 = "0.3", "0.3"


class Binding(TextChoices):
    """And over which of its bindings."""

    AUTO = "auto", "As its card says"
    JSONRPC = "JSONRPC", "JSON-RPC"
    HTTP_JSON = "HTTP+JSON", "HTTP and JSON"
    GRPC = "GRPC", "gRPC"


class Tested(TextChoices):
    """What a test of a remote server found."""

    WORKS = "works", "Works"
    UNPROVEN = "unproven", "Not known to work"
    CREDENTIAL_REFUSED = "credential_refused", "Refuses the credential"
    BLOCKED = "blocked", "Not called from here"
    UNKNOWN_HOST = "unknown_host", "Host name not known"
    UNREACHABLE = "unreachable", "No connection"
    CERTIFICATE = "certificate", "Certificate refused"
    TIMEOUT = "timeout", "No answer in time"
    NO_PROTOCOL = "no_protocol", "Does not speak A2A"
    NO_INTERFACE = "no_interface", "No interface to use"
    BUSY = "busy", "Takes nothing now"
    FAILED = "failed", "Fails"


class Shown(TextChoices):
    """What a remote server thinks of our credential, as far as a test can tell."""

    ACCEPTED = "accepted", "Accepted"
    REFUSED = "refused", "Refused"
    UNKNOWN = "unknown", "Not known"
    WITHHELD = "withheld", "Not sent: another place than the one that was set"
    NONE = "none", "None is set"


class TestStep(TextChoices):
    CARD = "card", "Card"
    INTERFACE = "interface", "Interface"
    TASK = "task", "Task"


class DeliveryState(TextChoices):
    """What became of telling a callback's receiver."""

    PENDING = "pending", "Pending"
    DELIVERED = "delivered", "Delivered"
    DEAD = "dead", "Given up"
    DISABLED = "disabled", "Not wanted"
    BLOCKED = "blocked", "Not allowed"


class Trouble(TextChoices):
    """Why an attempt to deliver was none."""

    HTTP_ERROR = "http_error", "The receiver answered with an error"
    REDIRECT = "redirect", "The receiver answered with a redirect, and redirects are not followed"
    GONE = "gone", "The receiver wants no more callbacks at this URL"
    TIMEOUT = "timeout", "The receiver did not answer in time"
    UNREACHABLE = "unreachable", "The receiver could not be reached, or hung up"
    CERTIFICATE = "certificate", "The receiver's certificate was refused"
    EGRESS_BLOCKED = "egress_blocked", "The URL leads to where Gatehouse does not call"
    WITHDRAWN = "withdrawn", "Who asked for it wants no more of it"
    UNREADABLE = "unreadable", "What it is signed with cannot be decrypted any more"
    LOST = "lost", "Nobody heard how the attempt ended"
    STOPPED = "stopped", "Somebody called it off"


#: Kinds whose tasks become runs of a supervised agent.
RUN_HERE = frozenset({RuntimeKind.CLI, RuntimeKind.MODEL})


class Transport(TextChoices):
    """What an agent's endpoint is reached over, in the words of seed 001."""

    JSON_RPC = "json_rpc", "JSON-RPC"
    HTTP_JSON = "http_json", "HTTP and JSON"
    GRPC = "grpc", "gRPC"


class Authentication(TextChoices):
    """What a caller of an endpoint shows. The token is the same, the header is not."""

    BEARER_TOKEN = "bearer_token", "Bearer token"
    API_KEY = "api_key", "API key"
    NONE = "none", "Nothing"


class CardForm(TextChoices):
    """What a card is served as to who asks for no version."""

    MERGED = "merged", "Merged"
    STRICT_1_0 = "1.0", "Strict 1.0"
    STRICT_0_3 = "0.3", "Strict 0.3"


_S = TaskState
TERMINAL = frozenset({_S.COMPLETED, _S.FAILED, _S.CANCELED, _S.REJECTED})
OPEN = frozenset(_S) - TERMINAL
_ENDS_EARLY = frozenset({_S.FAILED, _S.CANCELED, _S.REJECTED})
#: A task that works may say so again: that is how it tells of progress.
TRANSITIONS: dict[TaskState, frozenset[TaskState]] = {
    _S.SUBMITTED: frozenset(_S) - {_S.SUBMITTED},
    _S.WORKING: frozenset(_S) - {_S.SUBMITTED},
    _S.INPUT_REQUIRED: frozenset({_S.WORKING}) | _ENDS_EARLY,
    # Gatehouse says so for an agent that works on: it may come to its end without what it waits for.
    _S.AUTH_REQUIRED: frozenset({_S.WORKING, _S.INPUT_REQUIRED, _S.COMPLETED}) | _ENDS_EARLY,
    **{state: frozenset() for state in TERMINAL},
}
WORDS: dict[TaskState, Word] = {
    _S.SUBMITTED: Word.PENDING,
    _S.WORKING: Word.RUNNING,
    _S.INPUT_REQUIRED: Word.RUNNING,
    _S.AUTH_REQUIRED: Word.RUNNING,
    _S.COMPLETED: Word.COMPLETED,
    _S.FAILED: Word.FAILED,
    _S.REJECTED: Word.FAILED,
    _S.CANCELED: Word.CANCELLED,
}


def states_of(word: str) -> list[TaskState]:
    return [state for state, said in WORDS.items() if said == word]
