"""Pages of budgets and circuit breakers."""
