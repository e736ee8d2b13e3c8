"""The name by which users know `binlog_core.scans.dataset`."""

from .scans.dataset import CHANGE_COLUMNS as CHANGE_COLUMNS
from .scans.dataset import ScannedDataset as ScannedDataset
from .scans.dataset import changes as changes
