"""How a tool call is decided, made and recorded."""
