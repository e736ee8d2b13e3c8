"""The name by which users know `binlog_core.log.passes`."""

from .log.passes import Pass as Pass
from .log.passes import Prepared as Prepared
from .log.passes import Reading as Reading
