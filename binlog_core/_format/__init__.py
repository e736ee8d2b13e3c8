"""What the bytes of a log mean: its descriptor, event types, packed integers, compressed parts."""
