"""The report as one HTML file that works offline and prints well."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from buttress.report.chart import Chart
from buttress.report.document import plain
from buttress.report.files import write_text
from buttress.report.sheet import Sheet
from buttress.report.view import View, severities

if TYPE_CHECKING:
    from buttress.report.diagnosis import Diagnosis

_SCRIPTS = ("vendor/echarts.common.min.js", "charts.js", "page.js")


def write(diagnosis: Diagnosis, path: Path) -> Path:
    """Write the report in one step and return its path."""
    return write_text(path, page(View.of(diagnosis, replayed=True)))


def write_sheet(sheet: Sheet, path: str | Path) -> Path:
    """Write a sheet in one step and return its path."""
    return write_text(Path(path), sheet_page(sheet))


def page(view: View) -> str:
    """Return the report as HTML.

    All text is escaped by the template engine. A content security policy allows the scripts and
    the style sheet of this package by their hashes, and nothing else: no other script, no inline
    handler, no request.
    """
    return _rendered(
        "report.html.j2",
        view.charts,
        view=view,
        summary=severities(view.findings),
        charts={chart.key: chart for chart in view.charts},
    )


def sheet_page(sheet: Sheet) -> str:
    """Return a sheet as HTML, under the same policy as the report."""
    return _rendered("sheet.html.j2", sheet.charts, sheet=sheet)


def _rendered(template: str, drawn: Iterable[Chart], **given: Any) -> str:
    environment = Environment(
        loader=FunctionLoader(_asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["marked"] = marked
    scripts = [_asset(name) for name in _SCRIPTS]
    style = _asset("report.css")
    text = environment.get_template(template).render(
        data=embed({chart.key: chart.as_dict() for chart in drawn if chart.drawn}),
        policy=_policy(scripts, [style]),
        # only the files of this package enter the page unescaped
        style=Markup(style),
        scripts=[Markup(script) for script in scripts],
        **given,
    )
    return text.strip()


def marked(text: str) -> Markup:
    """Return text with what stands between backticks as code; everything in it is escaped.

    Examples
    --------
    >>> print(marked("run `buttress plan <dir>` & look"))
    run <code>buttress plan &lt;dir&gt;</code> &amp; look
    >>> print(marked("a lone ` stays"))
    a lone ` stays
    """
    parts = text.split("`")
    if len(parts) % 2 == 0:
        parts[-2:] = ["`".join(parts[-2:])]
    said = [
        Markup("<code>{}</code>").format(one) if at % 2 else escape(one)
        for at, one in enumerate(parts)
    ]
    return Markup("").join(said)


def embed(data: Any) -> Markup:
    r"""Return data as JSON that cannot leave the script element it stands in.

    Examples
    --------
    >>> print(embed({"name": "</script>&"}))
    {"name":"\u003c/script\u003e\u0026"}
    """
    text = json.dumps(plain(data), allow_nan=False, separators=(",", ":"))
    for unsafe in "<>&":
        text = text.replace(unsafe, f"\\u{ord(unsafe):04x}")
    return Markup(text)


def _policy(scripts: list[str], styles: list[str]) -> str:
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(map(_hash, scripts))}",
            f"style-src {' '.join(map(_hash, styles))}",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@cache
def _asset(name: str) -> str:
    return files("buttress.report").joinpath("assets", name).read_text(encoding="utf-8")
