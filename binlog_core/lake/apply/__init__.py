"""From changes to tables: folded by key, and merged."""
