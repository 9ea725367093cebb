"""What `buttress demo` prints: GRPO diagnosed, the others compared with it; reports of all."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.text import Text

from buttress.lab.demo import REMEDIES, run_demo
from buttress.logs import read
from buttress.report import Diagnosis, diagnose, terminal
from buttress.report.comparison import Comparison, RunSet
from buttress.report.runs import NamedDiagnosis


def show_demo(
    out: str | Path,
    *,
    steps: int | None = None,
    seed: int = 0,
    html: str | Path | None = None,
    console: Console,
) -> None:
    """Run the demo into a directory and show what came of it.

    Parameters
    ----------
    html
        Where the report of the GRPO run goes; by default beside those of the others.
    """
    demo = run_demo(out, steps=steps, seed=seed)
    diagnoses: dict[str, Diagnosis] = {}
    pages: dict[str, Path] = {}
    for run in demo.runs:
        diagnosis = diagnose(read(run.directory))
        page = Path(out) / f"{run.remedy}.html"
        if html is not None and run.remedy == "grpo":
            page = Path(html)
        diagnoses[run.remedy], pages[run.remedy] = diagnosis, diagnosis.to_html(page)
    terminal.render(diagnoses["grpo"], console)
    sides = {name: RunSet(name, (NamedDiagnosis(name, diagnoses[name]),)) for name in diagnoses}
    for remedy in REMEDIES[1:]:
        console.print()
        title = f"grpo against {remedy}, same weights, problems and seed"
        console.print(Text(title, style="bold"))
        Comparison(sides["grpo"], sides[remedy]).render(console)
    console.print()
    console.print(Text(demo.sentence()))
    console.print(Text(f"{demo.seconds:.0f} seconds in all", style="dim"))
    for remedy, page in pages.items():
        console.print(Text.assemble((f"report of {remedy}: ", "bold"), str(page.resolve())))
