"""The decorator of values that are made several times for every request.

``@light_dataclass(frozen=True, slots=True)`` is ``dataclass`` to the type checkers, which refuse assignments to its
fields. At run time the class is not frozen: the constructor of a frozen dataclass sets every field through
``object.__setattr__``, which made it five times slower (1.02 against 0.21 microseconds for ten fields), and a request
makes about thirty of them. Values that plugins are handed (segments, exchanges, verdicts) stay frozen at run time too.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as light_dataclass
else:
    from dataclasses import dataclass

    def light_dataclass(*, frozen, slots):
        """Make a dataclass that compares and hashes like a frozen one, without its constructor."""
        return dataclass(slots=slots, unsafe_hash=frozen)


__all__ = ["light_dataclass"]
