"""The ways into Spark: the data source with its streams, DataFrames, the export."""
