"""Sources of a log's bytes: files, folders, streams and stores, compressed or encrypted."""
