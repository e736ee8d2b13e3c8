"""What an index holds of each range of transactions of a log, and how readers choose ranges by it."""
