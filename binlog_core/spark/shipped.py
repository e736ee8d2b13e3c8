"""What goes to Spark's workers: it arrives, or says that this package is not there, or not in this version.

Without this, a worker fails on the first name that it cannot import, in the middle of Spark's own frames, or,
with another version, anywhere later.
"""

from __future__ import annotations

from typing import Any

from . import arrival


class Shipped:
    """A base of objects that are pickled for workers."""

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """How it is pickled: as bytes, which are unpickled after a check."""
        return _packed(_Reduced(super().__reduce_ex__(max(protocol, 2))))


class ShippedFunction:
    """A function that workers call: on arrival it is the function itself.

    Parameters
    ----------
    function : callable
        The function.
    """

    def __init__(self, function: Any) -> None:
        self._function = function

    def __call__(self, given: Any) -> Any:
        """Call it here, as tests without Spark do."""
        return self._function(given)

    def __reduce__(self) -> tuple[Any, ...]:
        """How it is pickled."""
        return _packed(self._function)


class _Reduced:
    """An object as its class says that it is pickled: on arrival it is the object."""

    def __init__(self, reduced: Any) -> None:
        self._reduced = reduced

    def __reduce__(self) -> tuple[Any, ...]:
        function, given, *more = self._reduced
        return _called, (function, given), *more


def _called(function: Any, given: tuple[Any, ...]) -> Any:
    return function(*given)  # pickle refuses to make an object of another class by copyreg's own


def _packed(held: Any) -> tuple[Any, ...]:
    """What `__reduce__` returns for what is to arrive as `held`."""
    from pyspark import cloudpickle

    from .. import __version__

    pickler: Any = cloudpickle
    pickler.register_pickle_by_value(arrival)  # where the package is not, its functions are not either
    return arrival.unpacked, (pickler.dumps(held), __version__)
