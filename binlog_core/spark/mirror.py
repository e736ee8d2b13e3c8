"""The name by which users know `binlog_core.mirror`."""

from ..mirror import Catalog as Catalog
from ..mirror import Compared as Compared
from ..mirror import TableStatus as TableStatus
from ..mirror import Uri as Uri
from ..mirror import mirror as mirror
from ..mirror import resync as resync
from ..mirror import status as status
from ..mirror import verify as verify
