"""The name by which users know `binlog_core.scans.duckdb`."""

from .scans.duckdb import CHANGE_COLUMNS as CHANGE_COLUMNS
from .scans.duckdb import connect as connect
from .scans.duckdb import query as query
from .scans.duckdb import register as register
