"""A log as the user has it: opened with options, read in passes, by one thread or several."""

from .log import Log as Log
