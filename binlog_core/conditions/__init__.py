"""Conditions on rows: parsed once, bound to a table, compiled for the loop, pushed down."""

from .language import UNBOUNDED as UNBOUNDED
from .language import All as All
from .language import Any_ as Any_
from .language import Changed as Changed
from .language import Comparison as Comparison
from .language import Condition as Condition
from .language import ConditionError as ConditionError
from .language import IsNull as IsNull
from .language import Like as Like
from .language import Literal as Literal
from .language import Node as Node
from .language import Not as Not
from .language import OneOf as OneOf
from .language import Ref as Ref
from .language import condition_of as condition_of
from .language import quoted as quoted
from .language import quoted_name as quoted_name
from .language import refs_of as refs_of
