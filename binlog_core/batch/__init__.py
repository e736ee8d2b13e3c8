"""Decoded rows as a structured array, and their layout in Arrow."""

from .change_batch import INVALID_DATE_DTYPE as INVALID_DATE_DTYPE
from .change_batch import INVALID_DATE_TEXT_DTYPE as INVALID_DATE_TEXT_DTYPE
from .change_batch import JSON_DIFF_DTYPE as JSON_DIFF_DTYPE
from .change_batch import OPS as OPS
from .change_batch import OUTCOMES as OUTCOMES
from .change_batch import RAW_COLUMN as RAW_COLUMN
from .change_batch import TRANSACTION_DTYPE as TRANSACTION_DTYPE
from .change_batch import ChangeBatch as ChangeBatch
from .change_batch import image_dtype as image_dtype
from .change_batch import record_dtype as record_dtype
