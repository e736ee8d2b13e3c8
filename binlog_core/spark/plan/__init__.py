"""What is to be read: parts of logs, and what holds where each begins."""
