"""Pure MCP protocol code without Django and I/O: messages, headers, event streams, and a module per revision family."""
