"""From a split of a log to record batches: images, numbers, types, and the schema that a DataFrame has."""
