"""Spark's interfaces: the data source with its streams, DataFrames, the export."""
