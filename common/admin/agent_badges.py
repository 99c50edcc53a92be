"""The part of the table of badges that is about agents: their cards, their endpoints, and what does their tasks."""

from common.admin.tones import Badge, Tone

_good, _look, _bad, _still = Tone.GOOD, Tone.LOOK, Tone.BAD, Tone.STILL

TABLE: dict[str, dict[str, Badge]] = {
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
