"""What A2A lets callers do: one table of operations, whatever binding and version they are asked through."""
