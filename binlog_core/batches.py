"""The name by which users know `binlog_core.log.batches`."""

from .log.batches import ArrowStream as ArrowStream
from .log.batches import Batches as Batches
from .log.batches import NoRows as NoRows
from .log.batches import batch_stream as batch_stream
from .log.batches import check_stream_options as check_stream_options
from .log.batches import empty_batch as empty_batch
from .log.batches import fitted as fitted
from .log.batches import stream_parts as stream_parts
