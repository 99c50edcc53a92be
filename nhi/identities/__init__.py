"""Agents, service accounts and tools."""
