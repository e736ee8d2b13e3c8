"""What tests and benchmarks share: golden logs, the comparison with a server's truth, a binlog writer."""
