"""Problems of one read: each said with its place, a flood of one kind counted."""

from __future__ import annotations

from buttress.groups import Problem

CAP = 20  # stored problems per file and message


class Problems:
    """Keeps the first problems of each file and message, and counts the rest."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], list[Problem]] = {}
        self._more: dict[tuple[str, str], int] = {}
        self._said: set[object] = set()

    def add(self, file: str, line: int, message: str, *, kind: str | None = None) -> None:
        """Record a problem; `kind` is what the cap counts by (default: the message)."""
        key = (file, kind or message)
        kept = self._kept.setdefault(key, [])
        if len(kept) < CAP:
            kept.append(Problem(file, line, message))
        else:
            self._more[key] = self._more.get(key, 0) + 1

    def once(self, key: object, file: str, line: int, message: str) -> None:
        """Record a problem the first time that `key` is seen."""
        if key not in self._said:
            self._said.add(key)
            self.add(file, line, message)

    def absorb(self, other: Problems) -> None:
        """Take over the problems of other files."""
        self._kept |= other._kept
        self._more |= other._more
        self._said |= other._said

    def all(self) -> tuple[Problem, ...]:
        """Return the problems by file and line; a flood ends with a count of what is not listed."""
        found = []
        for key, kept in self._kept.items():
            found += kept
            if more := self._more.get(key):
                found.append(Problem(key[0], 0, f"{more} more of the kind: {kept[-1].message}"))
        return tuple(sorted(found, key=lambda one: (one.file, one.line or 1 << 62)))
