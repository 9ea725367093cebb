"""Settings from a TOML file and from flags: one nested dict, and where each value was written."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from buttress.errors import InputError, UsageError

Key = tuple[str, ...]

_HEADER = re.compile(r"\s*\[\[?\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_ENTRY = re.compile(
    r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*="""
)
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")
_LISTED = 40  # names that a message lists
_FENCES = ('"""', "'''")


@dataclass
class Source:
    """Nested settings with their origins.

    Attributes
    ----------
    values
        As TOML gives them; flags overwrite the file.
    origins
        Key -> ``recipe.toml:12`` or the flag.
    """

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[Key, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path | str) -> Source:
        """Read a TOML file; raises `InputError` with file and line where it is none."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as fault:
            raise InputError(f"cannot read the settings {path}: {fault.strerror}") from None
        except UnicodeDecodeError as fault:
            raise InputError(f"{path} is not UTF-8 text (byte {fault.start})") from None
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as fault:
            found = re.search(r"\(at line (\d+), column (\d+)\)", str(fault))
            place = f"{path}:{found[1]}" if found else str(path)
            raise InputError(f"{place}: no TOML: {fault}") from None
        lines = lines_of(text)
        return cls(values, {key: f"{path}:{line}" for key, line in lines.items()})

    def set(self, key: Key, value: Any, origin: str) -> None:
        """Overwrite one value; what was said below it in the file is gone."""
        table: dict[str, Any] = self.values
        for part in key[:-1]:
            table[part] = _as_table(part, table.get(part))
            table = table[part]
        table[key[-1]] = value
        self.origins = {
            one: at for one, at in self.origins.items() if one[: len(key)] != key or one == key
        }
        self.origins[key] = origin

    def assign(self, text: str) -> None:
        """Take ``KEY=VALUE`` of the flag ``--set``; the value is TOML, or else plain text.

        >>> source = Source()
        >>> source.assign("trainer.learning_rate=1e-5")
        >>> source.assign("model=Qwen/Qwen2.5-0.5B")
        >>> source.values
        {'trainer': {'learning_rate': 1e-05}, 'model': 'Qwen/Qwen2.5-0.5B'}
        """
        name, equals, value = text.partition("=")
        if not (equals and name.strip()):
            raise UsageError(
                f"--set takes KEY=VALUE, e.g. trainer.learning_rate=1e-6; got {text!r}"
            )
        key = tuple(part.strip() for part in name.split("."))
        self.set(key, toml_value(value.strip()), f"--set {name.strip()}")

    def place(self, key: Iterable[str]) -> str:
        """Return where a key, or else the table that it is in, was written; empty if nowhere."""
        key = tuple(key)
        for end in range(len(key), 0, -1):
            if key[:end] in self.origins:
                return self.origins[key[:end]]
        return ""

    def fault(self, key: Iterable[str], message: str) -> UsageError:
        """Return the error about a key, led by its place."""
        place = self.place(key)
        return UsageError(f"{place}: {message}" if place else message)

    def unknown(self, key: Key, known: Iterable[str], what: str = "setting") -> UsageError:
        """Return the error about a key that is none of `known`, with the nearest ones."""
        known = list(known)
        if len(known) > _LISTED:
            near = difflib.get_close_matches(key[-1], known, n=5, cutoff=0.5)
            hint = f"the nearest are {', '.join(near)}" if near else "nothing like it is known"
            return self.fault(key, f"unknown {what} {key[-1]!r}; {hint}")
        return self.fault(key, str(UsageError.unknown(what, key[-1], known)))

    def check_names(self, key: Key, table: Mapping[str, Any], known: Iterable[str]) -> None:
        """Raise `UsageError` for the first name of a table that is not known."""
        known = list(known)
        for name in table:
            if name not in known:
                where = f"setting of [{'.'.join(key)}]" if key else "setting"
                raise self.unknown((*key, name), known, where)


def _as_table(name: str, value: Any) -> dict[str, Any]:
    """Return a setting as a table: of a short form, ``remedy = "avspo"``, what it stands for."""
    if isinstance(value, dict):
        return value
    return {"path" if name == "data" else "name": value} if isinstance(value, str) else {}


def toml_value(text: str) -> Any:
    """Return a value as TOML reads it; text that is no TOML value stays text.

    >>> toml_value("[1, 2]"), toml_value("true"), toml_value("avspo"), toml_value("1e-6")
    ([1, 2], True, 'avspo', 1e-06)
    """
    try:
        found = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return found["value"] if list(found) == ["value"] else text


def lines_of(text: str) -> dict[Key, int]:
    """Return the line of every key and table of a TOML text, counted from 1.

    Tables of an array carry their number: ``("reward", "0", "use")``.

    >>> lines_of('steps = 3\\n[data]\\npath = "x"')
    {('steps',): 1, ('data',): 2, ('data', 'path'): 3}
    """
    found: dict[Key, int] = {}
    table: Key = ()
    arrays: dict[Key, int] = {}
    fence = ""
    for number, line in enumerate(text.splitlines(), start=1):
        inside, fence = bool(fence), _fence_after(line, fence)
        if inside:
            continue
        if header := _HEADER.match(line):
            table = _parts(header[1])
            if line.lstrip().startswith("[["):
                arrays[table] = arrays.get(table, -1) + 1
                table = (*table, str(arrays[table]))
            found.setdefault(table, number)
        elif entry := _ENTRY.match(line):
            found.setdefault((*table, *_parts(entry[1])), number)
    return found


def _parts(name: str) -> Key:
    return tuple(part.strip("\"'") for part in _PART.findall(name))


def _fence_after(line: str, fence: str) -> str:
    """Return the multi-line quote that is open after a line."""
    for mark in _FENCES:
        if fence in ("", mark) and line.count(mark) % 2:
            return "" if fence else mark
    return fence
