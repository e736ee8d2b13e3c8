"""What an index holds about each range of a log's transactions, and how readers choose ranges by it."""
