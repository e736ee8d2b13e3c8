"""What is in a log, and whether it is whole: summary, verification, report page."""
