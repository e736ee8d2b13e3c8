"""Names of what is in `binlog_core.batch`."""
