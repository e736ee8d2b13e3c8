"""What goes to Spark's workers: it arrives, or says that this package is not there, or not in this version.

Without this, a worker fails on the first name that it cannot import, in the middle of Spark's own frames, or,
with another version, anywhere later.
"""

from __future__ import annotations

from typing import Any

from . import arrival


class Shipped:
    """A base of objects that are pickled for workers."""

    def __reduce__(self) -> tuple[Any, ...]:
        """How it is pickled: as bytes, which are unpickled after a check."""
        return _packed(_Rebuilt(type(self), self.__getstate__()))


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


class _Rebuilt:
    """An object as its class and its attributes: on arrival it is the object."""

    def __init__(self, kind: type, state: Any) -> None:
        self._kind, self._state = kind, state

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self._kind, self._state)


def _rebuilt(kind: type, state: dict[str, Any]) -> Any:
    found: Any = object.__new__(kind)
    found.__dict__.update(state)
    return found


def _packed(held: Any) -> tuple[Any, ...]:
    """What `__reduce__` returns for what is to arrive as `held`."""
    from pyspark import cloudpickle

    from .. import __version__

    pickler: Any = cloudpickle
    pickler.register_pickle_by_value(arrival)  # where the package is not, its functions are not either
    return arrival.unpacked, (pickler.dumps(held), __version__)
