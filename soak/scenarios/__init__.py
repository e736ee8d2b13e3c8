"""Commands that write files, each with what it must leave: faults.py has them fail."""
