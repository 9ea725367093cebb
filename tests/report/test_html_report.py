"""The HTML report as a file: self-contained, small, escaped, written in one step."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import hostile_run, made_run
from palette import BLINDNESS, contrast, distance, tokens

from buttress.errors import ButtressError
from buttress.groups import Groups, Problem, Run
from buttress.report import diagnose
from buttress.report.html import embed, marked, page
from buttress.report.view import View

ASSETS = Path(__file__).parents[2] / "src/buttress/report/assets"
LIMIT = 2_000_000
HOSTILE = [
    "<script>document.title='owned'</script>",
    "</script><script>document.title='owned'</script>",
    "</pre></details><img src=x onerror=\"document.title='owned'\">",
    "<svg onload=document.title='owned'>",
    "javascript:document.title='owned'",
    "<a href=\"javascript:document.title='owned'\">click</a>",
    "\" onmouseover=\"document.title='owned'\" x=\"",
    "' autofocus onfocus='document.title=1",
    "<style>body{display:none}</style>",
    "<meta http-equiv=refresh content='0;url=http://evil.example'>",
    "<!--", "]]>", "&lt;script&gt;", "\u2028\u2029",
    "{{ 7*7 }}", "{% raw %}", "{{ view.__class__ }}", "${7*7}", "{a|{b}}",
    "\x1b[31mred\x1b]0;title\x07", "\u202egnp.exe\u2066", "nul\x00byte", "lone \ud800 half",
]  # fmt: skip


class Page(HTMLParser):
    """What a browser would see: elements, attributes and texts."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self._inside: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style", "pre"):
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        inside = self._inside[-1] if self._inside else ""
        {"script": self.scripts, "style": self.styles}.get(inside, self.texts).append(data)


def html_of(run: Run | Groups) -> str:
    return page(View.of(diagnose(run)))


@pytest.fixture(scope="module")
def plain() -> str:
    return html_of(made_run(ease=-0.3))


def test_it_is_one_file_that_asks_for_nothing(plain: str) -> None:
    parsed = Page(plain)
    loading = {"src", "srcset", "data", "action", "formaction", "poster", "background", "ping"}
    for tag, attributes in parsed.elements:
        assert tag not in ("link", "iframe", "object", "embed", "base", "form", "img")
        assert not loading & set(attributes), (tag, attributes)
        if "href" in attributes:
            assert (attributes["href"] or "").startswith("#")
    style = "".join(parsed.styles)
    assert "@import" not in style
    assert "url(" not in style


def test_contents_lead_to_sections(plain: str) -> None:
    parsed = Page(plain)
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {href[1:] for _, one in parsed.elements if (href := one.get("href"))}
    assert len(targets) >= 7
    assert targets <= set(ids)


def test_everything_of_the_view_is_on_the_page(plain: str) -> None:
    view = View.of(diagnose(made_run(ease=-0.3)))
    text = "".join(Page(plain).texts)
    wanted = [view.sentence, *(one.value for one in view.numbers)]
    for finding in view.findings:
        wanted += [finding.code, finding.rule, finding.message, finding.steps]
        wanted += itertools.chain(*finding.evidence, *finding.advice)
        wanted.append(finding.see[1:])
    wanted += [chart.lead for chart in view.charts] + [chart.note for chart in view.charts]
    wanted += [one.message for one in view.problems]
    for group in view.samples:
        wanted += [group.kind, group.why, group.prompt]
        wanted += [rollout.completion or "" for rollout in group.rollouts]
    for one in wanted:
        # what stands between backticks is an element of its own
        assert one.replace("`", "") in text


def test_names_of_commands_are_code(plain: str) -> None:
    assert "<code>buttress remedies</code>" in marked("see `buttress remedies`")
    inside = [part for part in re.findall(r"<code>(.*?)</code>", plain) if "buttress" in part]
    assert inside
    assert "`" not in "".join(Page(plain).texts)


def test_charts_get_the_numbers_of_the_view(plain: str) -> None:
    view = View.of(diagnose(made_run(ease=-0.3)))
    data = json.loads(Page(plain).scripts[0])
    assert set(data) == {chart.key for chart in view.charts if chart.drawn}
    for key, chart in data.items():
        given = view.chart(key)
        assert chart["labels"] == list(given.labels)
        assert [one["values"] for one in chart["series"]] == [list(s.values) for s in given.series]


def test_the_policy_allows_the_scripts_of_this_page_and_nothing_else(plain: str) -> None:
    parsed = Page(plain)
    tags = [attributes for tag, attributes in parsed.elements if tag == "script"]
    assert [one.get("type") for one in tags] == ["application/json", None, None, None]
    policy = next(
        one["content"] for _, one in parsed.elements if one.get("http-equiv") and one["content"]
    )
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["base-uri"] == rules["form-action"] == "'none'"
    for name, parts in (("script-src", parsed.scripts[1:]), ("style-src", parsed.styles)):
        hashes = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in parts]
        assert rules[name] == " ".join(f"'sha256-{one}'" for one in hashes)
    assert "unsafe" not in policy
    # nothing on the page needs what the policy forbids
    for _, attributes in parsed.elements:
        assert "style" not in attributes
        assert not [name for name in attributes if name.startswith("on")]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_makes_no_element(text: str) -> None:
    harmless = Page(html_of(hostile_run("harmless")))
    parsed = Page(html_of(hostile_run(text)))
    assert [tag for tag, _ in parsed.elements] == [tag for tag, _ in harmless.elements]
    for (_, ours), (_, wanted) in zip(parsed.elements, harmless.elements, strict=True):
        assert list(ours) == list(wanted)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_as_it_was_written(text: str) -> None:
    visible = text.isprintable() and text.isascii()
    texts = Page(html_of(hostile_run(text))).texts
    # path, format, inferred, problem, prompt, completion, component
    assert sum(text in one for one in texts) >= 7 or not visible


def test_no_control_character_reaches_the_page() -> None:
    html = html_of(hostile_run("".join(HOSTILE)))
    html.encode("utf-8")
    own = "".join(path.read_text(encoding="utf-8") for path in ASSETS.rglob("*.*"))
    obeyed = set("\n\u2028\u2029\u202e\u2066") | {chr(n) for n in (*range(32), *range(127, 160))}
    assert set(html) & obeyed <= set(own)


@given(
    st.recursive(
        st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        st.lists,
        max_leaves=6,
    )
)
def test_embedded_data_survives_and_cannot_leave_its_element(data: object) -> None:
    text = str(embed(data))
    assert not set("<>&\u2028\u2029") & set(text)
    assert text.isascii()
    assert json.loads(text) == data


def test_a_completion_of_a_megabyte_is_shortened() -> None:
    run = made_run(steps=10, ease=-0.3, complete=lambda sample, correct: "<&>" * 350_000)
    html = html_of(run)
    assert len(html.encode()) < LIMIT
    assert "characters left out" in html


def test_a_long_run_stays_small() -> None:
    html = html_of(made_run(steps=2000, per_step=50, prompts=20_000))
    assert len(html.encode()) < LIMIT
    assert "adds up 4 consecutive steps" in html


def test_many_components_paths_and_problems_stay_small() -> None:
    columns = {f"reward/{'x' * 3000}{n}": [[0, 1]] * 60 for n in range(60)}
    groups = Groups.from_nested([[0, 1]] * 60, step=list(range(60)), **columns)
    problems = tuple(Problem("f" * 3000, n, "m" * 100_000) for n in range(5000))
    html = html_of(Run(groups, problems=problems))
    assert len(html.encode()) < LIMIT
    assert "4950 more are in the JSON report" in html
    assert "of 61 rewards" in html


def test_it_is_written_in_one_step_and_the_path_comes_back(tmp_path: Path) -> None:
    diagnosis = diagnose(made_run(steps=5))
    target = tmp_path / "report.html"
    assert diagnosis.to_html(str(target)) == target
    first = target.read_bytes()
    assert first.endswith(b"</html>")
    diagnosis.to_html(target)
    assert target.read_bytes() == first
    assert [path.name for path in target.parent.iterdir()] == ["report.html"]


def test_a_path_that_cannot_be_written_is_an_error_with_its_name(tmp_path: Path) -> None:
    diagnosis = diagnose(made_run(steps=5))
    file = tmp_path / "file"
    file.write_text("kept")
    for target in (tmp_path, file / "report.html"):
        with pytest.raises(ButtressError, match=re.escape(str(target))):
            diagnosis.to_html(target)
    assert file.read_text() == "kept"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    "run",
    [
        Run(Groups.from_nested([])),
        Groups.from_nested([[None, None]]),
        Groups.from_flat([1, 0, 1, 0], list("abcd"), prompt_id=["p"] * 4),
        Groups.from_nested([[1], [], [0, 0, 0], [1, 0]]),
    ],
)
def test_unknown_is_a_dash_with_the_reason(run: Run | Groups) -> None:
    texts = [one.strip() for one in Page(html_of(run)).texts]
    view = View.of(diagnose(run))
    for chart in view.charts:
        if not chart.drawn:
            assert f"– {chart.missing}" in texts


def test_text_can_be_read_in_both_themes() -> None:
    for theme in tokens().values():
        for surface in ("paper", "wash", "raised"):
            for name in ("ink", "soft", "link", "error", "warning", "info", "good"):
                assert contrast(theme[name], theme[surface]) >= 4.5, (name, surface)


def test_kinds_and_lines_can_be_told_apart_by_colour_blind_readers() -> None:
    lines = [f"line-{n}" for n in range(1, 5)]
    for theme in tokens().values():
        for names in (["mixed", "wrong", "correct", "between", "muted"], lines):
            for first, second in itertools.combinations(names, 2):
                for blindness in BLINDNESS:
                    apart = distance(theme[first], theme[second], blindness)
                    assert apart > 20, (first, second, blindness)


def test_the_vendored_library_is_the_one_that_its_page_names() -> None:
    vendor = ASSETS / "vendor"
    digest = hashlib.sha256((vendor / "echarts.common.min.js").read_bytes()).hexdigest()
    readme = (vendor / "README.md").read_text()
    assert digest in readme
    for licence in re.findall(r"`(\w+-(?:LICENSE|NOTICE))`", readme):
        assert (vendor / licence).stat().st_size > 100
    text = (vendor / "echarts.common.min.js").read_text()
    # it has to stand inside a script element
    assert not re.search(r"</script|<!--", text, re.IGNORECASE)


def test_escapes_are_not_doubled(plain: str) -> None:
    assert "&amp;amp;" not in plain
    assert "&amp;lt;" not in plain
    assert "&amp;#39;" not in plain
