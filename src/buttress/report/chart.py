"""A chart as data: what is drawn, not how. It becomes a picture, a table or a row of blocks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, Literal

from buttress.report import phrases

Form = Literal["columns", "histogram", "bars", "lines"]
Colour = Literal["wrong", "correct", "between", "mixed", "mixed-soft", "ink", "muted", "line"]

TABLE_ROWS = 24


@dataclass(frozen=True, slots=True)
class Series:
    """One set of values over the labels of a chart; None where a value is unknown.

    Attributes
    ----------
    colour
        The role of the series, not a colour: each rendering has its own palette. ``line`` takes
        the next free line colour.
    detail
        What to say of each value when it is pointed at; empty to say the value itself.
    shown
        Drawn at first; others appear when the reader asks for them.
    """

    name: str
    colour: Colour
    values: tuple[float | None, ...]
    detail: tuple[str, ...] = ()
    line: bool = False
    own_axis: bool = False
    shown: bool = True

    def text(self, place: int) -> str:
        """Return one value as a reader sees it."""
        return self.detail[place] if self.detail else phrases.number(self.values[place])


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, or the reason why there is none.

    Attributes
    ----------
    lead
        What the picture says, in a sentence; it stands in for the picture where none can be seen.
    note
        How to read it: bins, aggregation, what success means.
    missing
        Why the chart cannot be drawn; empty when it can.
    colours
        Roles of the labels, where the labels and not the series carry the meaning.
    limit
        A line to hold the values against, e.g. the ACR above which training stalls.
    ends
        What stands at the end of each bar, where it is not the value itself.
    more
        Further numbers of each label, as name and texts: shown where a label is pointed at, and as
        columns of the table.
    """

    key: str
    title: str
    form: Form
    labels: tuple[str, ...] = ()
    series: tuple[Series, ...] = ()
    x_name: str = ""
    y_name: str = ""
    lead: str = ""
    note: str = ""
    missing: str = ""
    colours: tuple[Colour, ...] = ()
    limit: float | None = None
    share: bool = False
    ends: tuple[str, ...] = ()
    more: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def drawn(self) -> bool:
        """Whether there is anything to draw."""
        return not self.missing

    @property
    def header(self) -> tuple[str, ...]:
        """Heading of the chart as a table."""
        return (self.x_name, *(one.name for one in self.series), *(name for name, _ in self.more))

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """The chart as a table; every n-th label where there are too many to read."""
        every = 1 if self.form == "bars" else -(-len(self.labels) // TABLE_ROWS) or 1
        return tuple(
            (
                self.labels[place],
                *(one.text(place) for one in self.series),
                *(texts[place] for _, texts in self.more),
            )
            for place in range(0, len(self.labels), every)
        )

    @property
    def rows_left_out(self) -> int:
        """Labels that the table does not show."""
        return len(self.labels) - len(self.rows)

    def as_dict(self) -> dict[str, Any]:
        """Return what a drawing needs, as plain data."""
        return asdict(self)


def absent(key: str, title: str, form: Form, reason: str) -> Chart:
    """Return a chart that cannot be drawn, with the reason."""
    return Chart(key, title, form, missing=reason)


def known(values: Any, digits: int = 4) -> tuple[float | None, ...]:
    """Return numbers for a drawing: rounded, None where they are not finite."""
    return tuple(
        float(f"{one:.{digits}g}") if isfinite(one) else None for one in map(float, values)
    )
