"""Shared by tests and benchmarks: golden logs, the comparison with a server's truth, a binlog writer."""
