from support.indexed import small_ranges  # noqa: F401
