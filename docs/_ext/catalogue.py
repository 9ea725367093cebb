"""Writes the pages of rules, remedies, evidence and commands from the code that they describe."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from buttress.lab.experiments import EXPERIMENTS
from buttress.remedies import remedies
from buttress.rules import RULES


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True}


def write_pages(app: Any) -> None:
    """Write docs/rules, docs/remedies and the index of the evidence."""
    root = Path(app.srcdir)
    evidence = _evidence(root / "evidence")
    rules = sorted(RULES.values(), key=lambda one: one.code)
    for rule in rules:
        text = [f"# {rule.name}", "", f"`{rule.code}`", "", *_paragraphs(rule.page)]
        if rule.explains:
            text += ["", "Explains: " + ", ".join(f"[{one}]({one}.md)" for one in rule.explains)]
        _write(root / "rules" / f"{rule.name}.md", text)
    _write_index(
        root / "rules",
        "Rules",
        "What `buttress diagnose` can find. `buttress explain NAME` shows the same pages.",
        [(rule.name, rule.title) for rule in rules],
    )
    for remedy in remedies():
        text = [f"# {remedy.name}", "", f"*{remedy.kind}*, {remedy.paper}", ""]
        text += [*_paragraphs(remedy.page), "", "## Options", "", *_options(remedy.options)]
        quoted = [
            f"- [{name}](../evidence/{name}.md): {entry['conclusion']}"
            for name, entry in evidence.items()
            if any(str(row.get("arm", "")).split(",")[0] == remedy.name for row in entry["rows"])
        ]
        text += ["", "## What we measured", "", *(quoted or ["Nothing yet."])]
        _write(root / "remedies" / f"{remedy.name}.md", text)
    _write_index(
        root / "remedies",
        "Remedies",
        "What can be done about groups without a signal. `buttress remedies NAME` shows the pages.",
        [(remedy.name, remedy.title) for remedy in remedies()],
    )
    entries = [(name, EXPERIMENTS[name].question) for name in evidence if name in EXPERIMENTS]
    entries += [(name, evidence[name]["question"]) for name in evidence if name not in EXPERIMENTS]
    _write_index(
        root / "evidence",
        "Evidence",
        "What the laboratory found. Each page names the command that made it; the JSON beside it "
        "holds every number.",
        entries,
    )


def _evidence(folder: Path) -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def _write_index(folder: Path, title: str, lead: str, entries: Iterable[tuple[str, str]]) -> None:
    entries = list(entries)
    lines = [f"# {title}", "", lead, "", "| | |", "|---|---|"]
    lines += [f"| [{name}]({name}.md) | {says} |" for name, says in entries]
    lines += ["", "```{toctree}", ":hidden:", "", *(name for name, _ in entries), "```"]
    _write(folder / "index.md", lines)


def _options(options: dict[str, Any]) -> list[str]:
    if not options:
        return ["None."]
    rows = [f"| `{name}` | `{value!r}` |" for name, value in options.items()]
    return ["| option | default |", "|---|---|", *rows]


def _paragraphs(page: str) -> list[str]:
    """Turn a plain docstring into Markdown: code marks, bold labels, indented blocks."""
    lines = []
    for line in page.splitlines():
        text = line.strip()
        if text and not line.startswith(" ") and len(text) < 20 and text[0].isupper():
            lines += ["", f"**{text}**", ""] if not text.endswith(".") else [text]
        else:
            lines.append(_marked(text if not text.startswith(">>>") else f"`{text}`"))
    return lines


def _marked(text: str) -> str:
    for mark in ("_", "*", "<", "|"):
        if "`" not in text:
            text = text.replace(mark, f"\\{mark}")
    return text


def _write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(lines) + "\n"
    if not path.exists() or path.read_text() != text:  # what did not change is not built again
        path.write_text(text)
