"""MCP as a server speaks it: bytes to a request or a refusal, outcomes to results. No Django, no I/O."""
