"""What lies where in logs: an index beside them, made and asked."""

from .making import NAME as NAME
from .making import IndexedLog as IndexedLog
from .making import index as index
from .making import part_of as part_of
