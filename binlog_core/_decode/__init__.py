"""From bytes to groups of batches: what is selected, plans of tables, the compiled loop at work."""
