"""A server with one tool, and what the gateway runs in this process ended after each test."""

from tests.mcp.conftest import _no_thread_outlives_a_test, server

__all__ = ["_no_thread_outlives_a_test", "server"]
