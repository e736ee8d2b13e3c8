"""Random tables and statements, and values that can be compared: what differential.py reads in each way."""
