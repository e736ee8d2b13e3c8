"""Exit codes of the commands that shells know."""

INTERRUPTED = 130  # what a shell gives for SIGINT
