"""Definitions of tables: given, or followed through the statements of a log."""
