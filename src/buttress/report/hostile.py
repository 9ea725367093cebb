"""Text from files, made harmless to look at: on a terminal, in HTML, in a log line."""

from __future__ import annotations

# kept where several lines are wanted
_LINE = "\n\t"
_BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
# ZWJ and ZWNJ are not here: scripts and emoji need them
_INVISIBLE = "\u00ad\u180e\u200b\u2060\u2061\u2062\u2063\u2064\u2028\u2029\ufeff\ufff9\ufffa\ufffb"


def _names(codes: range | list[int]) -> dict[int, str]:
    return {code: f"<U+{code:04X}>" for code in codes}


# C0 as control pictures (ESC is shown as one symbol), the rest by its number
_SHOWN: dict[int, str] = {
    **{code: chr(0x2400 + code) for code in range(0x20)},
    0x7F: "\u2421",
    **_names(range(0x80, 0xA0)),
    **_names([ord(one) for one in _BIDI + _INVISIBLE]),
    **_names(range(0xE0000, 0xE0080)),
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
}
_SHOWN_LINES = {code: shown for code, shown in _SHOWN.items() if chr(code) not in _LINE}
_SHOWN_SINGLE = {**_SHOWN, ord("\t"): " ", ord("\n"): "\u2424"}


def safe_text(text: object, *, lines: bool = False) -> str:
    r"""Return text with everything that a screen would obey instead of show made visible.

    C0 controls (ESC and NUL among them) become control pictures; C1 controls, bidirectional
    overrides and isolates, invisible and tag characters become their code point in angle
    brackets; lone surrogates become U+FFFD. Markup is escaped where it would be read as such: HTML
    by the template engine, rich markup by printing the text as a `rich.text.Text`.

    Parameters
    ----------
    lines
        Keep line breaks and tabs. By default the result is one line.

    Examples
    --------
    >>> safe_text("a\x1b[31mb\u202ec")
    'a␛[31mb<U+202E>c'
    >>> safe_text("two\r\nlines", lines=True)
    'two\nlines'
    """
    plain = str(text).replace("\r\n", "\n")
    return plain.translate(_SHOWN_LINES if lines else _SHOWN_SINGLE)


def clip(text: str, limit: int) -> str:
    """Return at most `limit` characters: the beginning and the end, and how many are left out.

    Examples
    --------
    >>> clip("abcdefghij", 4)
    'abc [… 6 characters left out …] j'
    """
    if len(text) <= limit:
        return text
    head, tail = limit - limit // 4, limit // 4
    left_out = f"[… {len(text) - limit:,} characters left out …]"
    return f"{text[:head]} {left_out} {text[len(text) - tail :]}"


def safe_name(name: object, limit: int = 60) -> str:
    """Return a name from a file (a column, an id, a format) on one short line."""
    return safe_text(clip(str(name), limit))
