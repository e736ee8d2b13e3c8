from support.lake_forms import form  # noqa: F401
