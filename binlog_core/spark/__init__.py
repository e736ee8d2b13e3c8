"""Binary logs for Spark."""
