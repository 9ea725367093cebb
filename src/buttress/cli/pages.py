"""Commands that show what is known: the pages of rules and remedies."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from buttress.cli.options import standard_output


def explain(rule: str | None = None, /) -> int:
    """Show the page of a rule; without a name, the list.

    Parameters
    ----------
    rule
        Name or code, e.g. advantage-collapse or BT101.
    """
    from buttress.report import pages

    pages.explain(rule, standard_output())
    return 0


def remedies(
    name: str | None = None, /, *, json: Annotated[bool, Parameter(negative="")] = False
) -> int:
    """Show the catalogue of remedies: paper, formula, cost, where each plugs in.

    Parameters
    ----------
    name
        One remedy, e.g. avspo; without a name, the list.
    json
        Print a list of objects with name, paper, kind and options.
    """
    from buttress.report import pages

    pages.remedies(name, standard_output(), as_json=json)
    return 0
