"""Where the bytes of a log come from: files, folders, streams and stores, packed or encrypted."""
