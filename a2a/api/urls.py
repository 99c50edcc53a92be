"""The paths of tasks below `/api/nhi/`, and those that are below `/` too. No slash at the end."""

from django.urls import path

from a2a import card_keys
from a2a.api import callbacks, cards, endpoints, envelopes, inbox, published, runtimes, tasks, traces
from common.api import path_converters  # noqa: F401 - its converter registers itself

SECRET = "a2a/webhook-secrets/<id:secret_id>"  # noqa: S105 - an address
DELIVERY = "a2a/deliveries/<id:delivery_id>"
CARD = "a2a/cards/<id:identity_id>"
WELL_KNOWN = "agents/<str:name>/.well-known"
TASK, OFFERED = "a2a/tasks/<id:task_id>", "a2a/inbox/<id:task_id>"

urlpatterns = [
    path("a2a/tasks", tasks.Tasks.as_view()),
    path(TASK, tasks.OneTask.as_view()),
    path(f"{TASK}/cancel", tasks.Cancel.as_view()),
    path(f"{TASK}/trace", traces.OfTasks.as_view()),
    path("supervisor/executions/<id:execution_id>/trace", traces.OfRuns.as_view()),
    path("mcp/invocations/<id:call_id>/trace", traces.OfCalls.as_view()),
    path("a2a/envelope", envelopes.Envelope.as_view()),
    path("a2a/status", envelopes.Status.as_view()),
    path("a2a/inbox", inbox.Inbox.as_view()),
    path("a2a/inbox/claim", inbox.ClaimNext.as_view()),
    path(f"{OFFERED}/claim", inbox.Claim.as_view()),
    path(f"{OFFERED}/heartbeat", inbox.Heartbeat.as_view()),
    path(f"{OFFERED}/progress", inbox.Progress.as_view()),
    path(f"{OFFERED}/artifacts", inbox.Make.as_view()),
    path(f"{OFFERED}/ask", inbox.Ask.as_view()),
    path(f"{OFFERED}/answer", inbox.Answer.as_view()),
    path(f"{OFFERED}/reject", inbox.Reject.as_view()),
    path(f"{OFFERED}/complete", inbox.Complete.as_view()),
    path(f"{OFFERED}/fail", inbox.Fail.as_view()),
    path("a2a/runtimes/<id:identity_id>", runtimes.OneRuntime.as_view()),
    path("a2a/runtimes/<id:identity_id>/test", runtimes.Test.as_view()),
    path("a2a/webhook-secrets", callbacks.WebhookSecrets.as_view()),
    path(SECRET, callbacks.OneSecret.as_view()),
    path(f"{SECRET}/rotate", callbacks.RotateSecret.as_view()),
    path(f"{SECRET}/revoke-previous", callbacks.RevokePrevious.as_view()),
    path("a2a/deliveries", callbacks.Deliveries.as_view()),
    path(DELIVERY, callbacks.OneDelivery.as_view()),
    path(f"{DELIVERY}/redeliver", callbacks.Redeliver.as_view()),
    path(f"{DELIVERY}/stop", callbacks.Stop.as_view()),
    path(f"{DELIVERY}/disable", callbacks.Disable.as_view()),
    path("a2a/agent-card/<id:identity_id>", cards.ContractCard.as_view()),
    path("a2a/cards", cards.Cards.as_view()),
    path(CARD, cards.OneCard.as_view()),
    path(f"{CARD}/preview", cards.Preview.as_view()),
    path("a2a/endpoints", endpoints.Endpoints.as_view()),
    path("a2a/endpoints/<id:identity_id>", endpoints.OneEndpoint.as_view()),
]
#: The same at another place; the description names each of them once.
bare = [
    path("a2a/tasks", tasks.Tasks.as_view(schema=None)),
    path(TASK, tasks.OneTask.as_view(schema=None)),
    path(f"{TASK}/cancel", tasks.Cancel.as_view(schema=None)),
    path("a2a/envelope", envelopes.Envelope.as_view(schema=None)),
    path("a2a/status", envelopes.Status.as_view(schema=None)),
]
#: What strangers read.
open_to_all = [
    path(f"{WELL_KNOWN}/agent-card.json", published.WellKnownCard.as_view()),
    path(f"{WELL_KNOWN}/agent.json", published.WellKnownCard.as_view()),
    path("agents/<str:name>", published.WellKnownCard.as_view()),
    path("agents/<str:name>/", published.WellKnownCard.as_view()),
    path(".well-known/agent-card.json", published.UsualCard.as_view()),
    path(".well-known/agent.json", published.UsualCard.as_view()),
    path(".well-known/agents/<id:identity_id>", published.ContractCard.as_view()),
    path(card_keys.PUBLISHED_AT[1:], published.Keys.as_view()),
]
