"""The server side: MCP and REST requests of clients, and the results and errors that they receive."""
