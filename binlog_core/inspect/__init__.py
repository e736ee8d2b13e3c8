"""The contents of a log, and whether it is complete: summary, verification, report page."""
