"""The name by which users know `binlog_core.inspect.transactions`."""

from .inspect.transactions import DETAIL_TYPES as DETAIL_TYPES
from .inspect.transactions import FRAMES as FRAMES
from .inspect.transactions import Block as Block
from .inspect.transactions import By as By
from .inspect.transactions import Heads as Heads
from .inspect.transactions import Tallies as Tallies
from .inspect.transactions import Transaction as Transaction
from .inspect.transactions import describe as describe
from .inspect.transactions import transactions as transactions
