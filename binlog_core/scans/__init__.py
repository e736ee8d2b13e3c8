"""Logs as tables that others scan: Arrow datasets, DuckDB, one table at once."""
