"""Badges of A2A agents: their runtimes, cards, endpoints and connection tests."""

from common.console.tones import Badge, Tone

_good, _look, _bad, _still = Tone.GOOD, Tone.LOOK, Tone.BAD, Tone.STILL

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
