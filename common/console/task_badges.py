"""Badges of A2A tasks: their states, events and deliveries."""

from common.console.tones import Badge, Tone

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
