"""Wiring only: settings, URLs, processes. What Gatehouse knows and decides lives in the apps below."""
