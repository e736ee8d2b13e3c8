"""The name by which users know `binlog_core.inspect.history`."""

from .inspect.history import Version as Version
from .inspect.history import changed_values as changed_values
from .inspect.history import history as history
from .inspect.history import row_as_of as row_as_of
