"""How the REST API describes itself: its title, and what each list of words is called in the schema."""

#: A list without a name of its own here would be called by the field that it was met in first.
NAMES = {
    "IdentityKind": "nhi.choices.Kind",
    "IdentityState": "nhi.choices.State",
    "GrantState": "nhi.choices.GrantState",
    "CallStatus": "nhi.choices.CallStatus",
    "Transport": "mcp.choices.Transport",
    "ServerStatus": "mcp.choices.Connection",
    "HealthStatus": "mcp.choices.HealthStatus",
    "DefinitionState": "mcp.choices.DefinitionState",
    "ApprovalState": "mcp.choices.ApprovalState",
    "BreakerState": "mcp.choices.BreakerState",
    "BreakerScope": "mcp.choices.BreakerScope",
    "BudgetScope": "mcp.choices.BudgetScope",
    "ToolStatus": "mcp.api.shapes.tools.STATUSES",
    "CallState": "mcp.api.shapes.calls.STATUSES",
    "AgentMode": "supervisor.choices.Mode",
    "AgentKind": "supervisor.choices.Kind",
    "InputPattern": "supervisor.choices.InputPattern",
    "OutputPattern": "supervisor.choices.OutputPattern",
    "AccessType": "supervisor.choices.AccessType",
    "ExecutionState": "supervisor.choices.ExecutionState",
    "ExecutionStatus": "supervisor.choices.ExecutionStatus",
    "ErrorCategory": "supervisor.choices.ErrorCategory",
    "RunTrigger": "supervisor.choices.Trigger",
    "SessionState": "supervisor.choices.SessionState",
    "MessageDirection": "supervisor.choices.Direction",
    "MisfirePolicy": "supervisor.choices.MisfirePolicy",
    "OverlapPolicy": "supervisor.choices.OverlapPolicy",
    "FireState": "supervisor.choices.FireState",
    "ScheduleState": "supervisor.choices.ScheduleState",
    "TaskWord": "a2a.choices.Word",
    "TaskState": "a2a.choices.TaskState",
    "DeliveryState": "a2a.choices.DeliveryState",
    "RuntimeKind": "a2a.choices.RuntimeKind",
    "TaskTransport": "a2a.choices.Transport",
    "EndpointAuthentication": "a2a.choices.Authentication",
    "CardForm": "a2a.choices.CardForm",
    "TypeEnum": [("tool", "tool")],
    "WireVersion": "a2a.choices.WireVersion",
    "A2ABinding": "a2a.choices.Binding",
}


def settings(*, version: str) -> dict[str, object]:
    """For drf-spectacular."""
    return {
        "TITLE": "Gatehouse",
        "DESCRIPTION": "Who may call what: identities, grants, roles and decisions; servers, their tools and calls.",
        "VERSION": version,
        "OAS_VERSION": "3.1.0",
        "COMPONENT_SPLIT_REQUEST": True,
        "PATH_CONVERTER_OVERRIDES": {"id": {"type": "string", "format": "uuid"}, "name": {"type": "string"}},
        "POSTPROCESSING_HOOKS": ["drf_spectacular.hooks.postprocess_schema_enums", "common.api.schema.whole"],
        "ENUM_NAME_OVERRIDES": NAMES,
    }
