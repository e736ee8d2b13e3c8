"""The parts of logs to read, and the definitions and transactions at the start of each."""
