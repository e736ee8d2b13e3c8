"""The format of logs: descriptors, event types, packed integers, compressed parts."""
