"""MySQL and MariaDB binary logs as columns."""
