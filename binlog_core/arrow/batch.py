"""The name by which users know `binlog_core.batch.arrow_batch`."""

from ..batch.arrow_batch import NO_POLARS as NO_POLARS
from ..batch.arrow_batch import ArrowBatch as ArrowBatch
from ..batch.arrow_batch import change_column as change_column
from ..batch.arrow_batch import json_documents as json_documents
from ..batch.arrow_batch import made_by_default as made_by_default
from ..batch.arrow_batch import made_together as made_together
from ..batch.arrow_batch import record_numbers as record_numbers
