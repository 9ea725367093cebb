"""The errors that buttress raises on purpose.

::

    ButtressError
    ├── UsageError (ValueError)      the call is wrong: option, name, shape
    ├── InputError (ValueError)      the file or directory cannot be read at all
    └── MissingExtraError (ImportError)   an optional dependency is not installed

A damaged line or column is not an error: it becomes a `Problem` of the run and the rest is read.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ButtressError(Exception):
    """Root of everything that buttress raises on purpose."""


class UsageError(ButtressError, ValueError):
    """The call is wrong; the message says what was given, what is allowed and what to do."""

    @classmethod
    def unknown(cls, what: str, name: object, known: Iterable[str]) -> UsageError:
        """Return the error for a name that is not among `known`, with the nearest one as a hint."""
        if not isinstance(name, str):
            return cls(f"the {what} must be a name; got {type(name).__name__}")
        known = sorted(known)
        close = difflib.get_close_matches(name, known, n=1)
        close = close or [one for one in known if name and one.startswith(name)]
        hint = f" Did you mean {close[0]!r}?" if close else ""
        return cls(f"unknown {what} {name!r}.{hint} Known: {', '.join(known)}")


class InputError(ButtressError, ValueError):
    """Nothing could be read; the message names the path and the remedy."""


class MissingExtraError(ButtressError, ImportError):
    """An optional dependency is missing; the message is the command that installs it."""

    @classmethod
    def of(cls, feature: str, extra: str) -> MissingExtraError:
        """Return the error that tells how to install `extra` for `feature`."""
        install = f"pip install 'buttress[{extra}]', in a clone pip install '.[{extra}]'"
        return cls(f"{feature} needs the extra {extra!r}: {install}")
