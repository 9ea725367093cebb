"""The HTML report in a real Chromium: it draws, follows the theme, prints, and obeys no rollout."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import Chromium, find_chromium
from made_runs import hostile_run, made_run
from test_html_report import HOSTILE

from buttress.report import Diagnosis, diagnose
from buttress.report.view import VERDICTS

pytestmark = pytest.mark.browser

CHARTS = ("acr", "success", "prompts", "components", "means", "advantages", "replay")
ATTACK = (
    "<script>document.title='owned'</script></pre></script>"
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
)


def title_of(diagnosis: Diagnosis) -> str:
    return f"{VERDICTS[diagnosis.verdict]}: runs/maths-1.5b/rollouts (buttress)"


def need(command: str | None, what: str) -> None:
    if command is not None:
        return
    if os.environ.get("BUTTRESS_REQUIRE_ALL") == "1":
        pytest.fail(f"{what} is not installed and BUTTRESS_REQUIRE_ALL=1")
    pytest.skip(f"{what} is not installed (Debian: apt-get install chromium poppler-utils)")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    need(find_chromium(), "Chromium")
    with Chromium(tmp_path_factory.mktemp("profile")) as chromium:
        chromium.size(1280, 900)
        yield chromium


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return diagnose(made_run(ease=-0.3)).to_html(tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture
def opened(browser: Chromium, report: Path) -> Chromium:
    browser.size(1280, 900)
    browser.scheme("light")
    browser.open(report)
    browser.settle()
    return browser


def test_every_chart_is_drawn_and_nothing_complains(opened: Chromium, report: Path) -> None:
    for key in CHARTS:
        shapes = opened.run(f"document.querySelectorAll('[data-chart={key}] svg path').length")
        assert shapes > 4, key
    assert opened.complaints == []
    assert opened.requests == [report.resolve().as_uri()]


def test_a_script_in_a_completion_does_not_run(browser: Chromium, tmp_path: Path) -> None:
    run = made_run(steps=60, ease=-0.3, complete=lambda sample, correct: ATTACK)
    diagnosis = diagnose(run)
    browser.open(diagnosis.to_html(tmp_path / "report.html"))
    browser.settle()
    assert browser.run("document.title") == title_of(diagnosis)
    shown = browser.run("document.querySelector('.rollout .text').textContent")
    assert shown == ATTACK
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.complaints == []


def test_the_dumped_dom_is_drawn_and_unharmed(tmp_path: Path) -> None:
    need(find_chromium(), "Chromium")
    run = made_run(steps=60, ease=-0.3, complete=lambda sample, correct: ATTACK)
    diagnosis = diagnose(run)
    path = diagnosis.to_html(tmp_path / "report.html")
    done = subprocess.run(
        [
            find_chromium() or "",
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr", "--v=0",
            "--dump-dom", path.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert f"<title>{title_of(diagnosis)}</title>" in done.stdout
    assert done.stdout.count("<svg") > len(CHARTS)
    assert "CONSOLE" not in done.stderr


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_anywhere_does_nothing(browser: Chromium, tmp_path: Path, text: str) -> None:
    browser.open(diagnose(hostile_run(text)).to_html(tmp_path / "report.html"))
    browser.settle()
    assert browser.run("document.title") != "owned"
    # pointing at every label shows names from the file in the tooltips
    for _ in range(3):
        browser.run(
            "document.querySelectorAll('[data-chart]').forEach(one => one.dispatchEvent("
            "new KeyboardEvent('keydown', {key: 'ArrowRight'})))"
        )
    browser.settle()
    assert browser.run("document.title") != "owned"
    assert browser.run("document.querySelectorAll('.tip').length") > 0
    assert browser.complaints == []
    assert len(browser.requests) == 1


def test_a_remedy_tells_all_its_numbers_when_pointed_at(opened: Chromium) -> None:
    place = "document.querySelector('[data-chart=replay]')"
    for _ in range(2):
        opened.run(f"{place}.dispatchEvent(new KeyboardEvent('keydown', {{key: 'ArrowDown'}}))")
    opened.settle()
    spoken = opened.run("document.getElementById('spoken').textContent")
    assert spoken.startswith("remedy avspo, in mixed groups ")
    assert ", cost 0, max |A| " in spoken
    tip = opened.run(f"{place}.querySelector('.tip').innerText")
    assert "phantom" in tip
    ends = opened.run(f"[...{place}.querySelectorAll('svg text')].map(one => one.textContent)")
    assert sum(" rollouts" in one for one in ends) >= 1
    legend = opened.run(f"{place}.parentElement.querySelectorAll('button').length")
    assert legend == 2
    opened.run(f"{place}.parentElement.querySelectorAll('button')[1].click()")
    opened.settle()
    still = opened.run(f"[...{place}.querySelectorAll('svg text')].map(one => one.textContent)")
    assert sum(" rollouts" in one for one in still) == sum(" rollouts" in one for one in ends)


def test_the_policy_stops_what_escaping_would_let_through(
    browser: Chromium, report: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.html"
    html = report.read_text(encoding="utf-8")
    broken.write_text(html.replace("</main>", f"{ATTACK}</main>"), encoding="utf-8")
    browser.open(broken)
    browser.settle()
    assert browser.run("document.title") != "owned"
    said = " ".join(browser.complaints)
    assert "Content Security Policy" in said
    assert browser.run("document.querySelectorAll('[data-chart=acr] svg').length") == 1


def test_pointing_shows_the_numbers_and_the_legend_hides_a_kind(opened: Chromium) -> None:
    box = opened.run(
        "(() => { const one = document.querySelector('[data-chart=acr]');"
        "one.scrollIntoView({block: 'center'}); const at = one.getBoundingClientRect();"
        "return [at.x + at.width / 2, at.y + at.height / 2] })()"
    )
    opened.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])
    opened.settle()
    tip = opened.run("document.querySelector('[data-chart=acr] .tip').innerText")
    assert tip.startswith("step ")
    assert " of 8 (" in tip
    assert "mean reward" not in tip
    legend = "document.querySelector('[data-chart=acr]').parentElement.querySelectorAll('button')"
    names = opened.run(f"[...{legend}].map(one => one.innerText)")
    assert names == ["all wrong", "all correct", "ACR over 11 steps", "mean reward"]
    before = opened.run("document.querySelectorAll('[data-chart=acr] svg path').length")
    opened.run(f"{legend}[0].click()")
    opened.settle()
    after = opened.run("document.querySelectorAll('[data-chart=acr] svg path').length")
    assert after < before - 50
    assert opened.run(f"{legend}[0].getAttribute('aria-pressed')") == "false"
    assert opened.complaints == []


def test_the_keyboard_reaches_points_zoom_and_folds(opened: Chromium) -> None:
    opened.run("document.querySelector('[data-chart=acr]').focus()")

    def press(*keys: str) -> str:
        for key in keys:
            opened.call("Input.dispatchKeyEvent", type="keyDown", key=key)
        opened.settle()
        return opened.run("document.getElementById('spoken').textContent")

    assert press("ArrowRight").startswith("step 1, all wrong ")
    assert press("ArrowRight").startswith("step 2, ")
    assert press("End").startswith("step 120, ")
    first = (
        "Math.min(...[...document.querySelectorAll('[data-chart=acr] svg text')]"
        ".map(one => one.textContent).filter(one => /^[0-9]+$/.test(one)))"
    )
    assert opened.run(first) == 1
    press("+", "+")
    assert opened.run(first) > 60
    press("Escape")
    assert opened.run(first) == 1
    focusable = opened.run(
        "[...document.querySelectorAll('a, button, summary, [tabindex]')]"
        ".every(one => one.tabIndex >= 0)"
    )
    assert focusable
    assert opened.complaints == []


def test_colours_follow_the_theme_also_when_it_changes(opened: Chromium) -> None:
    colours = (
        "[getComputedStyle(document.body).backgroundColor,"
        "document.querySelector('[data-chart=acr] svg text').getAttribute('fill'),"
        "[...new Set([...document.querySelectorAll('[data-chart=acr] svg path')]"
        ".map(one => one.getAttribute('fill')))].sort().join()]"
    )
    light = opened.run(colours)
    opened.scheme("dark")
    opened.settle()
    dark = opened.run(colours)
    assert light[0] == "rgb(255, 255, 255)"
    assert sum(map(int, dark[0][4:-1].split(", "))) < 90
    assert all(one != other for one, other in zip(light, dark, strict=True))
    opened.scheme("light")
    opened.settle()
    assert opened.run(colours) == light
    assert opened.complaints == []


@pytest.mark.parametrize("width", [360, 700, 1024, 1280, 1920])
def test_nothing_is_wider_than_the_window(opened: Chromium, width: int) -> None:
    opened.size(width, 900)
    opened.settle()
    opened.settle()
    assert opened.run("document.documentElement.scrollWidth") <= width
    wide = opened.run(
        "[...document.querySelectorAll('[data-chart] svg')]"
        ".filter(one => one.getBoundingClientRect().right > innerWidth).length"
    )
    assert wide == 0


def test_hostile_length_breaks_no_layout(browser: Chromium, tmp_path: Path) -> None:
    browser.size(400, 900)
    browser.open(diagnose(hostile_run("x" * 5000)).to_html(tmp_path / "report.html"))
    browser.settle()
    assert browser.run("document.documentElement.scrollWidth") <= 400


def test_on_paper_it_is_light_unfolded_and_complete(
    opened: Chromium, tmp_path: Path, report: Path
) -> None:
    need(shutil.which("pdftotext"), "pdftotext")
    opened.scheme("dark")
    opened.settle()
    pdf = opened.pdf(tmp_path / "report.pdf")
    text = subprocess.run(
        ["pdftotext", "-layout", str(pdf), "-"], capture_output=True, text=True, check=True
    ).stdout
    words = " ".join(text.split())
    for wanted in ("advantage-collapse", "Prompts by state", "Logged advantages", "0 of 8 (0%)"):
        assert wanted in words
    # every rollout of every group, folded ones included, and the last line of each table
    assert words.count("The answer is") == 6 * 4
    assert "2.5 and more" in words or "and more" in words
    # back on screen all is as it was
    opened.settle()
    folds = opened.run("[...document.querySelectorAll('details.group')].map(one => one.open)")
    assert folds == [True] + [False] * 5
    assert not opened.run("document.documentElement.classList.contains('paper')")
    assert opened.complaints == []


def test_paper_is_white_whatever_the_theme(opened: Chromium, tmp_path: Path) -> None:
    need(shutil.which("pdftoppm"), "pdftoppm")
    opened.scheme("dark")
    opened.settle()
    pdf = opened.pdf(tmp_path / "report.pdf")
    command = ["pdftoppm", "-r", "20", "-gray", "-l", "2", str(pdf), str(tmp_path / "page")]
    subprocess.run(command, check=True)
    pages = sorted(tmp_path.glob("page*.pgm"))
    assert pages
    for path in pages:
        pixels = path.read_bytes().split(b"\n", 3)[-1]
        bright = sum(one > 230 for one in pixels) / len(pixels)
        assert bright > 0.6
