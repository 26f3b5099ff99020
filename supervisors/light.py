"""The decorators of values that are made several times for every request.

``@light_dataclass(frozen=True, slots=True)`` is ``dataclass`` to the type checkers, which refuse assignments to its
fields. At run time the class is not frozen: the constructor of a frozen dataclass sets every field through
``object.__setattr__``, which made it five times slower (1.02 against 0.21 microseconds for ten fields), and a request
makes about thirty of them.

Values that plugins are handed (segments, exchanges, verdicts) stay frozen at run time too: one that changed a text
would change what the supervisors after it judge. ``@frozen_dataclass(frozen=True, slots=True)`` is ``dataclass`` with
a constructor that stores into the slots themselves, at half the price.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as frozen_dataclass
    from dataclasses import dataclass as light_dataclass
else:
    from dataclasses import MISSING, dataclass, fields

    def light_dataclass(*, frozen, slots):
        """Make a dataclass that compares and hashes like a frozen one, without its constructor."""
        return dataclass(slots=slots, unsafe_hash=frozen)

    def frozen_dataclass(*, frozen, slots):
        """Make a frozen dataclass whose constructor uses the setters of its slots."""

        def make(cls):
            made = dataclass(frozen=frozen, slots=slots)(cls)
            made.__init__ = _constructor(made)
            return made

        return make

    def _constructor(cls):
        names = {"_set_" + one.name: cls.__dict__[one.name].__set__ for one in fields(cls)}
        names |= {"_default_" + one.name: one.default for one in fields(cls) if one.default is not MISSING}
        given = [
            one.name if one.default is MISSING else f"{one.name}=_default_{one.name}" for one in fields(cls)
        ]  # neither default factories nor __post_init__: a class with those is a plain dataclass
        lines = [f"    _set_{one.name}(self, {one.name})" for one in fields(cls)]
        exec(f"def __init__(self, {', '.join(given)}):\n" + "\n".join(lines), names)  # noqa: S102 - as dataclasses do
        return names["__init__"]


__all__ = ["frozen_dataclass", "light_dataclass"]
