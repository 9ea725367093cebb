"""Text from files shows what it is and does nothing."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buttress.report.hostile import clip, safe_text

# lone surrogates included: broken escapes in JSON and undecodable file names bring them
ANY_TEXT = st.text(st.characters(exclude_categories=[]))
OBEYED_BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def obeyed(text: str, allowed: str = "") -> list[str]:
    """Return the characters that a screen would obey instead of showing."""
    return [
        one
        for one in text
        if one not in allowed
        and (
            unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp")
            or unicodedata.bidirectional(one) in OBEYED_BIDI
        )
    ]


@given(ANY_TEXT)
def test_nothing_that_a_screen_obeys_is_left(text: str) -> None:
    assert obeyed(safe_text(text)) == []
    assert obeyed(safe_text(text, lines=True), allowed="\n\t") == []


@pytest.mark.parametrize("code", [*range(0x20), *range(0x7F, 0xA0)])
def test_every_control_character_is_shown_as_something(code: int) -> None:
    shown = safe_text(f"a{chr(code)}b")
    assert shown[0] == "a"
    assert shown[-1] == "b"
    assert len(shown) > 2


def test_every_bidirectional_control_is_shown_by_its_code() -> None:
    for code in range(0x2000, 0x2070):
        if unicodedata.bidirectional(chr(code)) in OBEYED_BIDI:
            assert safe_text(chr(code)) == f"<U+{code:04X}>"


@given(st.text(st.characters(categories=["L", "N", "P", "S"])))
def test_ordinary_text_of_any_script_is_left_alone(text: str) -> None:
    assert safe_text(text) == text


def test_emoji_sequences_and_joiners_survive() -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    assert safe_text(family) == family


def test_escape_sequences_lose_their_escape() -> None:
    for sequence in ("\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\x1b[8mhidden\x1b[0m"):
        shown = safe_text(sequence)
        assert "\x1b" not in shown
        assert "\x9b" not in shown
        assert "\x07" not in shown


@given(st.text(max_size=60), st.integers(0, 40))
def test_clip_keeps_both_ends_and_counts_what_it_leaves_out(text: str, limit: int) -> None:
    short = clip(text, limit)
    if len(text) <= limit:
        assert short == text
        return
    head, rest = short.split(" [… ", 1)
    count, tail = rest.split(" characters left out …] ", 1)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + len(tail) == limit
    assert len(head) + len(tail) + int(count.replace(",", "")) == len(text)
