"""The name by which users know `binlog_core.batch.arrow_types`."""

from ..batch.arrow_types import ArrowField as ArrowField
from ..batch.arrow_types import ChangeColumn as ChangeColumn
from ..batch.arrow_types import ExportOptions as ExportOptions
from ..batch.arrow_types import Geometry as Geometry
from ..batch.arrow_types import ImageColumn as ImageColumn
from ..batch.arrow_types import NewColumns as NewColumns
from ..batch.arrow_types import SharedOptions as SharedOptions
from ..batch.arrow_types import StreamOptions as StreamOptions
from ..batch.arrow_types import ValueOptions as ValueOptions
from ..batch.arrow_types import Vectors as Vectors
from ..batch.arrow_types import WideDecimals as WideDecimals
from ..batch.arrow_types import arrow_field as arrow_field
from ..batch.arrow_types import arrow_fields as arrow_fields
from ..batch.arrow_types import number_format as number_format
from ..batch.arrow_types import struct_field as struct_field
