"""The badge of every state: label, tone, icon."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

__all__ = ["BADGES", "ICONS", "Badge", "Tone", "find", "of", "vocabulary"]


class Tone(StrEnum):
    """How the console rates a state. The tone sets the colour and the default icon of a badge.

    `LOOK` marks a state that a person should look at, `STILL` a neutral one.
    """

    GOOD = "good"
    BUSY = "busy"
    LOOK = "look"
    BAD = "bad"
    STILL = "still"


ICONS = {
    Tone.GOOD: "check_circle",
    Tone.BUSY: "sync",
    Tone.LOOK: "warning",
    Tone.BAD: "error",
    Tone.STILL: "circle",
}


@dataclass(frozen=True)
class Badge:
    """How the console shows one state. Without an icon of its own, the badge has the icon of its tone."""

    label: str
    tone: Tone
    icon: str = ""

    @property
    def symbol(self) -> str:
        return self.icon or ICONS[self.tone]

    def saying(self, label: str) -> "Badge":
        """A copy with another label."""
        return Badge(label, self.tone, self.icon)


_good, _busy, _look, _bad, _still = Tone.GOOD, Tone.BUSY, Tone.LOOK, Tone.BAD, Tone.STILL

TASK_BADGES: dict[str, dict[str, Badge]] = {
    "a2a.TaskState": {
        "submitted": Badge("Submitted", _still),
        "working": Badge("Working", _busy),
        "input_required": Badge("Needs input", _look),
        "auth_required": Badge("Needs sign-in", _look),
        "completed": Badge("Completed", _good),
        "failed": Badge("Failed", _bad),
        "canceled": Badge("Cancelled", _still),
        "rejected": Badge("Rejected", _bad),
    },
    "a2a.Word": {
        "pending": Badge("Pending", _still),
        "running": Badge("Running", _busy),
        "completed": Badge("Completed", _good),
        "failed": Badge("Failed", _bad),
        "cancelled": Badge("Cancelled", _still),
    },
    "a2a.Role": {
        "user": Badge("Caller", _still, "person"),
        "agent": Badge("Agent", _still, "smart_toy"),
    },
    "a2a.EventKind": {
        "task": Badge("Task", _still, "task"),
        "status": Badge("Status", _still, "sync_alt"),
        "artifact": Badge("Artifact", _still, "draft"),
        "message": Badge("Message", _still, "chat"),
    },
    "a2a.DeliveryState": {
        "pending": Badge("Queued", _busy),
        "delivered": Badge("Delivered", _good),
        "dead": Badge("Gave up", _bad),
        "disabled": Badge("Endpoint gone", _still),
        "blocked": Badge("Not allowed", _look, "block"),
        "retrying": Badge("Retrying", _look, "replay"),
        "under_way": Badge("Being delivered", _busy),
        "stopped": Badge("Called off", _still, "do_not_disturb_on"),
    },
    "a2a.Trouble": {
        "http_error": Badge("Answered with an error", _look),
        "redirect": Badge("Answered with a redirect", _look),
        "gone": Badge("Endpoint gone", _still),
        "timeout": Badge("No answer in time", _look, "timer_off"),
        "unreachable": Badge("Not reached", _look),
        "certificate": Badge("Certificate refused", _look),
        "egress_blocked": Badge("Not allowed", _look, "block"),
        "unreadable": Badge("Secret unreadable", _bad),
        "lost": Badge("Lost", _bad),
        "stopped": Badge("Called off", _still, "do_not_disturb_on"),
        "withdrawn": Badge("Not wanted any more", _still, "do_not_disturb_on"),
    },
}


AGENT_BADGES: dict[str, dict[str, Badge]] = {
    "a2a.RuntimeKind": {
        "inbox": Badge("Its own workers", _still, "inbox"),
        "cli": Badge("A program", _still, "terminal"),
        "model": Badge("A model", _still, "neurology"),
        "remote": Badge("Another A2A server", _still, "cloud"),
    },
    "a2a.WireVersion": {
        "auto": Badge("As its card says", _still, "badge"),
        "1.0": Badge("1.0", _still, "badge"),
        "0.3": Badge("0.3", _still, "badge"),
    },
    "a2a.Binding": {
        "auto": Badge("As its card says", _still, "badge"),
        "JSONRPC": Badge("JSON-RPC", _still, "data_object"),
        "HTTP+JSON": Badge("HTTP and JSON", _still, "http"),
        "GRPC": Badge("gRPC", _still, "bolt"),
    },
    "a2a.Tested": {
        "works": Badge("Works", _good),
        "unproven": Badge("Not known to work", _look),
        "credential_refused": Badge("Refuses the credential", _bad, "key_off"),
        "blocked": Badge("Not called from here", _look, "block"),
        "unknown_host": Badge("Host name not known", _bad),
        "unreachable": Badge("No connection", _bad),
        "certificate": Badge("Certificate refused", _bad),
        "timeout": Badge("No answer in time", _bad),
        "no_protocol": Badge("Does not speak A2A", _bad),
        "no_interface": Badge("No interface to use", _bad),
        "busy": Badge("Takes nothing now", _look),
        "failed": Badge("Fails", _bad),
    },
    "a2a.Shown": {
        "accepted": Badge("Accepted", _good, "key"),
        "refused": Badge("Refused", _bad, "key_off"),
        "unknown": Badge("Not known", _still, "key"),
        "withheld": Badge("Not sent", _look, "key"),
        "none": Badge("None is set", _still, "key"),
    },
    "a2a.TestStep": {
        "card": Badge("Card", _still, "badge"),
        "interface": Badge("Interface", _still, "lan"),
        "task": Badge("Task", _still, "task"),
    },
    "a2a.Transport": {
        "json_rpc": Badge("JSON-RPC", _still, "data_object"),
        "http_json": Badge("HTTP and JSON", _still, "http"),
        "grpc": Badge("gRPC", _still, "bolt"),
    },
    "a2a.Authentication": {
        "bearer_token": Badge("Bearer token", _good, "key"),
        "api_key": Badge("API key", _good, "key"),
        "none": Badge("Open to everybody", _bad, "lock_open"),
    },
    "a2a.CardForm": {
        "merged": Badge("Merged", _still, "badge"),
        "1.0": Badge("Strict 1.0", _still, "badge"),
        "0.3": Badge("Strict 0.3", _still, "badge"),
    },
    "card": {
        "discoverable": Badge("Anyone can read it", _look, "public"),
        "hidden": Badge("Callers only", _still, "visibility_off"),
        "withheld": Badge("Not shown now", _still, "block"),
    },
    "objection": {
        "error": Badge("Refused", _bad),
        "warning": Badge("Noticed", _look),
    },
}


#: By vocabulary: `<app>.<TextChoices class>`, or a name for states that pages derive.
BADGES: dict[str, dict[str, Badge]] = {
    "nhi.Kind": {
        "agent": Badge("Agent", _still, "smart_toy"),
        "service_account": Badge("Service account", _still, "manufacturing"),
        "tool": Badge("Tool", _still, "build"),
    },
    "nhi.State": {
        "active": Badge("Active", _good),
        "inactive": Badge("Inactive", _still),
        "suspended": Badge("Suspended", _look, "pause_circle"),
        "deprecated": Badge("Deprecated", _look, "history"),
        "archived": Badge("Archived", _still, "inventory_2"),
        "expired": Badge("Expired", _bad, "event_busy"),
    },
    "nhi.GrantState": {
        "live": Badge("Live", _good),
        "expired": Badge("Expired", _still, "event_busy"),
        "revoked": Badge("Revoked", _still, "block"),
        "ends_soon": Badge("Ends soon", _look, "schedule"),
        "unused": Badge("Unused", _look, "hourglass_empty"),
        "rotating": Badge("Rotating", _busy),
        "pending": Badge("Waiting", _look, "front_hand"),
    },
    "nhi.Verdict": {
        "allow": Badge("Allowed", _good, "check"),
        "deny": Badge("Denied", _look, "block"),
    },
    "nhi.PermissionType": {
        "call": Badge("Call", _still, "call_made"),
        "delegate": Badge("Delegate", _still, "call_split"),
    },
    "nhi.Level": {
        "use": Badge("Use", _still, "person"),
        "manage": Badge("Manage", _still, "manage_accounts"),
        "admin": Badge("Admin", _still, "shield_person"),
    },
    "nhi.StopCause": {
        "emergency": Badge("Emergency stop", _still, "stop_circle"),
        "leak": Badge("Leaked token", _look, "key_off"),
        "behaviour": Badge("Unexpected behaviour", _look, "help"),
        "owner": Badge("Owner asked", _still, "person"),
    },
    "nhi.NoticeKind": {
        "password_set": Badge("Password set", _look, "key"),
        "factor_reset": Badge("Second factor reset", _look, "phonelink_erase"),
    },
    "nhi.ActorKind": {
        "user": Badge("Person", _still, "person"),
        "identity": Badge("Identity", _still, "smart_toy"),
        "system": Badge("Gatehouse", _still, "settings"),
        "anonymous": Badge("Unknown caller", _still, "help"),
    },
    "nhi.OriginRole": {
        "asked": Badge("Asked for the run", _still, "person"),
        "schedule": Badge("Set up the schedule", _still, "schedule"),
        "session": Badge("Took part in the session", _still, "forum"),
        "task": Badge("Created the task, or spoke in it", _still, "task"),
        "member": Badge("In the chain", _still, "account_tree"),
        "owner": Badge("Owner", _still, "person"),
        "backup_owner": Badge("Backup owner", _still, "group"),
        "credential": Badge("Made a credential", _still, "key"),
    },
    "nhi.ProcessKind": {
        "web": Badge("Web", _still, "public"),
        "worker-control": Badge("Worker (control)", _still, "conveyor_belt"),
        "worker-runs": Badge("Worker (runs)", _still, "conveyor_belt"),
        "beat": Badge("Beat", _still, "schedule"),
        "stdio-owner": Badge("Stdio owner", _still, "terminal"),
        "grpc": Badge("A2A over gRPC", _still, "hub"),
    },
    "nhi.CallStatus": {
        "success": Badge("Success", _good),
        "error": Badge("Error", _bad),
        "lost": Badge("Lost", _bad),
        "permission_denied": Badge("Denied", _look, "block"),
        "rate_limited": Badge("Rate limited", _look, "speed"),
        "in_flight": Badge("In flight", _busy),
    },
    "mcp.Transport": {
        "stdio": Badge("Process (stdio)", _still, "terminal"),
        "http": Badge("Streamable HTTP", _still, "http"),
        "sse": Badge("HTTP with SSE", _still, "stream"),
    },
    "mcp.Connection": {
        "Ready": Badge("Ready", _good),
        "Degraded": Badge("Degraded", _look, "trending_down"),
        "Offline": Badge("Offline", _bad, "cloud_off"),
        "connecting": Badge("Connecting", _busy),
        "disabled": Badge("Disabled", _still),
    },
    "mcp.DefinitionState": {
        "pending": Badge("Needs approval", _look),
        "approved": Badge("Approved", _good, "verified"),
        "quarantined": Badge("Quarantined", _bad, "gpp_bad"),
        "withdrawn": Badge("Gone from server", _still),
        "deprecated": Badge("Deprecated", _look, "history"),
    },
    "mcp.BudgetScope": {
        "server": Badge("Server", _still, "dns"),
        "tool": Badge("Tool", _still, "build"),
        "agent": Badge("Agent", _still, "smart_toy"),
        "grant": Badge("Grant", _still, "key"),
    },
    "mcp.BreakerState": {
        "CLOSED": Badge("Closed, calls flow", _good),
        "HALF-OPEN": Badge("Half-open, one probe", _look),
        "OPEN": Badge("Open, calls refused", _bad),
    },
    "mcp.BreakerScope": {
        "server": Badge("All callers", _still, "groups"),
        "identity": Badge("One identity", _still, "person"),
    },
    "mcp.FaultKind": {
        "connection": Badge("Connection", _bad),
        "answer": Badge("Answer", _look),
    },
    "mcp.ApprovalState": {
        "pending": Badge("Waiting", _look, "front_hand"),
        "approved": Badge("Approved", _good),
        "refused": Badge("Refused", _still, "block"),
        "expired": Badge("Expired", _still, "event_busy"),
        "used": Badge("Used", _still, "task_alt"),
    },
    "mcp.OriginKind": {
        "person": Badge("Person", _still, "person"),
        "identity": Badge("Identity", _still, "smart_toy"),
        "run": Badge("Run", _still, "play_arrow"),
        "task": Badge("Task", _still, "task"),
    },
    "mcp.HealthStatus": {
        "Healthy": Badge("Healthy", _good),
        "Degraded": Badge("Degraded", _look, "trending_down"),
        "Unhealthy": Badge("Unhealthy", _bad),
        "running": Badge("Testing", _busy),
        "none": Badge("Not tested", _still),
    },
    "agent_switch": {
        "on": Badge("On", _good),
        "off": Badge("Off", _still, "power_settings_new"),
    },
    "supervisor.Kind": {
        "process": Badge("Program", _still, "terminal"),
        "model": Badge("Model", _still, "neurology"),
    },
    "supervisor.Mode": {
        "task": Badge("Task", _still, "task"),
        "interactive": Badge("Interactive", _still, "forum"),
    },
    "supervisor.InputPattern": {
        "stdin": Badge("Standard input", _still, "input"),
        "file": Badge("File", _still, "description"),
        "args": Badge("Argument", _still, "text_fields"),
        "json-rpc": Badge("JSON-RPC", _still, "data_object"),
    },
    "supervisor.OutputPattern": {
        "stdout": Badge("Standard output", _still, "output"),
        "file": Badge("File", _still, "description"),
        "json-rpc": Badge("JSON-RPC", _still, "data_object"),
    },
    "supervisor.AccessType": {
        "read-only": Badge("Read-only", _still, "visibility"),
        "read-write": Badge("Read-write", _still, "edit"),
    },
    "supervisor.ExecutionState": {
        "queued": Badge("Queued", _still, "hourglass_empty"),
        "idle": Badge("Idle", _still),
        "starting": Badge("Starting", _busy),
        "running": Badge("Running", _busy),
        "completed": Badge("Completed", _good),
        "failed": Badge("Failed", _bad),
        "timeout": Badge("Timed out", _bad, "timer_off"),
        "cancelled": Badge("Cancelled", _still, "cancel"),
        "cleanup": Badge("Cleaning up", _busy),
    },
    "supervisor.ExecutionStatus": {
        "success": Badge("Success", _good),
        "failure": Badge("Failure", _bad),
        "timeout": Badge("Timed out", _bad, "timer_off"),
        "cancelled": Badge("Cancelled", _still, "cancel"),
    },
    "supervisor.ErrorCategory": {
        "Transient": Badge("Transient", _look, "replay"),
        "Permanent": Badge("Permanent", _bad),
        "AgentError": Badge("Agent error", _bad),
        "SystemError": Badge("System error", _bad),
    },
    "supervisor.Trigger": {
        "manual": Badge("By hand", _still, "touch_app"),
        "api": Badge("API", _still, "api"),
        "schedule": Badge("Schedule", _still, "schedule"),
        "session": Badge("Session", _still, "forum"),
        "task": Badge("Task", _still, "task"),
    },
    "supervisor.Stream": {
        "out": Badge("Output", _still, "output"),
        "err": Badge("Errors", _still, "report"),
    },
    "supervisor.SessionState": {
        "open": Badge("Open", _good),
        "closed": Badge("Closed", _still),
    },
    "supervisor.Direction": {
        "in": Badge("To the agent", _still, "call_made"),
        "out": Badge("From the agent", _still, "call_received"),
    },
    "supervisor.MisfirePolicy": {
        "skip": Badge("Skip them", _still, "skip_next"),
        "once": Badge("Run once for the latest", _still, "looks_one"),
        "all": Badge("Run once for each", _still, "repeat"),
    },
    "supervisor.OverlapPolicy": {
        "skip": Badge("Skip the due time", _still, "skip_next"),
        "queue": Badge("Wait for the one before", _still, "hourglass_empty"),
        "allow": Badge("Run beside the one before", _still, "splitscreen"),
    },
    "supervisor.ScheduleState": {
        "created": Badge("Not in use", _still),
        "active": Badge("Active", _good),
        "executing": Badge("Running", _busy),
        "paused": Badge("Paused", _still, "pause_circle"),
    },
    "supervisor.FireState": {
        "fired": Badge("Fired", _good),
        "missed": Badge("Missed", _look),
        "skipped": Badge("Skipped", _still, "skip_next"),
        "queued": Badge("Late", _look, "schedule"),
        "failed": Badge("Failed", _bad),
    },
    "process": {
        "up": Badge("Up", _good),
        "late": Badge("Late", _look),
        "lost": Badge("Lost", _bad),
    },
    "check": {
        "ok": Badge("Holds", _good),
        "failed": Badge("Does not hold", _bad),
        "warning": Badge("To be mended", _look, "warning"),
    },
    "answer": {
        "pass": Badge("Passes", _good, "check"),
        "fail": Badge("Fails", _look, "block"),
        "skip": Badge("Not asked", _still, "remove"),
    },
    "person": {
        "active": Badge("Active", _good),
        "deactivated": Badge("Deactivated", _still, "person_off"),
    },
    "second_factor": {
        "yes": Badge("Set up", _good, "verified_user"),
        "no": Badge("None", _look, "gpp_maybe"),
    },
    "record": {
        "intact": Badge("As written", _good, "verified"),
        "broken": Badge("Not as written", _bad, "gpp_bad"),
        "unknown_key": Badge("Key unknown", _look, "key_off"),
    },
    "result": {
        "created": Badge("Added", _good),
        "exists": Badge("Exists already", _still),
        "refused": Badge("Refused", _look, "block"),
        "done": Badge("Done", _good),
        "skipped": Badge("Skipped", _still),
        "pending": Badge("Still ending", _busy),
    },
    **TASK_BADGES,
    **AGENT_BADGES,
}


def vocabulary(choices: type) -> str:
    return f"{choices.__module__.partition('.')[0]}.{choices.__name__}"


def find(vocabulary_name: str, value: Any) -> Badge:
    return BADGES[vocabulary_name][str(getattr(value, "value", value))]


def of(choice: Any) -> Badge:
    """The badge of a member of a TextChoices."""
    return find(vocabulary(type(choice)), choice)
