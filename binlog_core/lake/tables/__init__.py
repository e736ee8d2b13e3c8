"""Tables that an export writes: Parquet directories, Delta, Iceberg."""
