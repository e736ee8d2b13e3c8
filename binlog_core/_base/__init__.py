"""What any room may use: times, durations, JSON text, names of change columns. It knows nothing of logs."""
