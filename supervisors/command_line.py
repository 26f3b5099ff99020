"""Command lines whose errors are one line: what is wrong, what was probably meant, where the options are listed."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from typing import Any, Final, NoReturn

from supervisors.nearest import did_you_mean

_CHOICE: Final = re.compile(r"invalid choice: (['\"])(?P<given>.*)\1 \(choose from (?P<known>.*)\)\Z", re.DOTALL)


class CommandParser(argparse.ArgumentParser):
    """A parser that names the nearest option or word instead of printing its whole usage; so do its sub-parsers."""

    def error(self, message: str) -> NoReturn:
        """End the program with code 2 and the message."""
        found = _CHOICE.search(message)
        if found is not None:
            known = [word.strip().strip("'\"") for word in found["known"].split(",")]
            message += did_you_mean(found["given"], known)
        self.exit(2, f"{self.prog}: error: {message}\n{self.prog} --help says how it is used\n")

    # What comes in and out is what the library's overloads say; written out again, no checker takes them for the same.
    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride] - see above
        self,
        args: Any = None,
        namespace: Any = None,
    ) -> tuple[Any, list[str]]:
        """Refuse unknown options where the known ones are: in the parser of the command they are given to."""
        found, left = super().parse_known_args(args, namespace)
        if any(word.startswith("-") for word in left):
            self.error(f"unrecognized arguments: {' '.join(left)}{self._meant(left)}")
        return found, left

    def _meant(self, words: Iterable[str]) -> str:
        """Return which option was probably meant by the first word that is none."""
        option = next(word for word in words if word.startswith("-")).partition("=")[0]
        return did_you_mean(option, self._option_string_actions) if option.startswith("--") else ""
