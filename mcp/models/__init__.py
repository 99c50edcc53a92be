"""Models of the gateway, one module per subject."""

from mcp.models.calls import Call, CallApproval, CallApprovalOrigin, CallSlot
from mcp.models.health import HealthReport
from mcp.models.limits import Breaker, Budget, BudgetWindow
from mcp.models.servers import Server, ServerSecret
from mcp.models.sessions import McpSession, SessionStartCount
from mcp.models.tools import PendingChange, Tool, ToolDefinition

__all__ = [
    "Breaker",
    "Budget",
    "BudgetWindow",
    "Call",
    "CallApproval",
    "CallApprovalOrigin",
    "CallSlot",
    "HealthReport",
    "McpSession",
    "PendingChange",
    "Server",
    "ServerSecret",
    "SessionStartCount",
    "Tool",
    "ToolDefinition",
]
