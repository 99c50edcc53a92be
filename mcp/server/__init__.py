"""What MCP and REST clients see: requests, results and errors."""
