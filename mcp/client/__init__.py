"""How upstream MCP servers are called."""
