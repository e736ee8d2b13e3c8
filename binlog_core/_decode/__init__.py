"""From bytes to groups of batches: selection, plans of tables, and the compiled loop at work."""
