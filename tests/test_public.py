"""The public face: names, docstrings, errors, and what an import costs."""

import importlib
import inspect
import re
import subprocess
import sys

import pytest

import buttress
from buttress.errors import ButtressError, InputError, MissingExtraError, UsageError

ROOMS = ["groups", "measures", "remedies", "rules", "logs", "report"]
HEAVY = ["torch", "transformers", "trl", "scipy", "polars", "pandas", "rich", "cyclopts", "jinja2"]


def room(name):
    return importlib.import_module(f"buttress.{name}")


# --- names -------------------------------------------------------------------------------------


def test_all_is_sorted_and_complete():
    assert sorted(buttress.__all__) == buttress.__all__
    assert set(buttress.__all__) == {"__version__", *buttress._HOMES}
    assert dir(buttress) == buttress.__all__
    source = inspect.getsource(buttress)
    for name, home in buttress._HOMES.items():
        # type checkers read these lines, Python the table
        assert re.search(rf"from {re.escape(home)} import .*\b{name}\b", source), name


@pytest.mark.parametrize("name", buttress.__all__)
def test_every_name_is_there(name):
    value = getattr(buttress, name)
    if name in buttress._HOMES:
        assert value is getattr(importlib.import_module(buttress._HOMES[name]), name)
        assert name in importlib.import_module(buttress._HOMES[name]).__all__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'collapse_rates'"):
        _ = buttress.collapse_rates


@pytest.mark.parametrize("name", ROOMS)
def test_rooms_name_what_they_offer(name):
    offered = room(name).__all__
    # constants, classes, functions; each in order
    assert offered == sorted(offered, key=lambda one: (not one.isupper(), one[0].islower(), one))
    assert len(set(offered)) == len(offered)
    for one in offered:
        assert hasattr(room(name), one)


# --- docstrings --------------------------------------------------------------------------------

PUBLIC = [
    pytest.param(value, id=f"{name}.{one}")
    for name in ROOMS
    for one in room(name).__all__
    if inspect.isfunction(value := getattr(room(name), one)) or inspect.isclass(value)
]
PURE = [
    pytest.param(value, id=f"{name}.{one}")
    for name in ("groups", "measures")
    for one in room(name).__all__
    if inspect.isfunction(value := getattr(room(name), one))
]
# said once, in the classes themselves
KNOWN = {"self", "cls", "groups", "tolerance", "confidence"}


@pytest.mark.parametrize("value", PUBLIC)
def test_docstrings_begin_with_one_line(value):
    lines = inspect.getdoc(value).splitlines()
    assert lines[0].endswith((".", "?")), lines[0]
    assert len(lines) == 1 or not lines[1]


@pytest.mark.parametrize("value", [one for one in PUBLIC if inspect.isfunction(one.values[0])])
def test_docstrings_speak_of_every_parameter(value):
    page, parameters = inspect.getdoc(value), inspect.signature(value).parameters.values()
    pure = value in [one.values[0] for one in PURE]
    for one in parameters:
        if one.name not in KNOWN and (pure or one.kind is one.KEYWORD_ONLY):
            assert re.search(rf"\b{one.name}\b", page), one.name


@pytest.mark.parametrize("value", PURE)
def test_pure_functions_show_an_example(value):
    assert ">>> " in inspect.getdoc(value)


@pytest.mark.parametrize(
    "name",
    [
        "clustered_rate_interval",
        "collapse_rate",
        "composition",
        "paired_difference",
        "rate_difference",
        "wilson_interval",
    ],
)
def test_formulas_name_their_source(name):
    page = inspect.getdoc(getattr(room("measures"), name))
    assert re.search(r"Source: .*(\d{4}\.\d{5}|\(\d{4}\)|section)", page, re.DOTALL)


@pytest.mark.parametrize(
    "name", ["collapse_rate", "paired_difference", "spread", "success_column", "wilson_interval"]
)
def test_measures_say_when_they_are_unknown(name):
    assert re.search(r"\bnan\b", inspect.getdoc(getattr(room("measures"), name)), re.IGNORECASE)


@pytest.mark.parametrize("name", ["from_nested", "from_flat", "from_dense"])
def test_constructors_have_a_page(name):
    assert ">>> " in inspect.getdoc(getattr(buttress.Groups, name))


# --- imports -----------------------------------------------------------------------------------


def loaded_after(code):
    """The heavy packages that are in memory after some code, in a fresh interpreter."""
    script = f"{code}\nimport sys\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.split()


def test_import_loads_nothing_heavy():
    assert loaded_after("import buttress") == []


def test_measuring_loads_nothing_heavy():
    code = """
import buttress as bt
groups = bt.Groups.from_flat([1, 0, 1, 1], ["a", "a", "b", "b"], prompt_id=["p", "p", "q", "q"])
assert bt.collapse_rate(groups) == 0.5 and bt.composition(groups)["mixed"] == 1
"""
    assert loaded_after(code) == []


def test_estimating_and_diagnosing_need_no_torch():
    code = """
import buttress as bt
groups = bt.Groups.from_nested([[1, 0], [1, 1], [0, 0, None]])
bt.estimator("avspo")(groups)
bt.advantages([1.0, 0.0], [0, 0])
bt.diagnose(groups).to_json()
"""
    assert not {"torch", "transformers", "trl", "pandas"} & set(loaded_after(code))


# --- errors ------------------------------------------------------------------------------------


def test_errors_have_one_root_and_the_types_that_python_expects():
    assert issubclass(UsageError, ButtressError)
    assert issubclass(UsageError, ValueError)
    assert issubclass(InputError, ButtressError)
    assert issubclass(InputError, ValueError)
    assert issubclass(MissingExtraError, ButtressError)
    assert issubclass(MissingExtraError, ImportError)


@pytest.mark.parametrize(
    ("name", "hint"), [("avsop", "Did you mean 'avspo'?"), ("zzz", None), ("", None)]
)
def test_an_unknown_name_comes_with_the_nearest_and_all_others(name, hint):
    error = UsageError.unknown("remedy", name, ["rloo", "grpo", "avspo"])
    assert isinstance(error, UsageError)
    text = str(error)
    assert f"unknown remedy {name!r}" in text
    assert "Known: avspo, grpo, rloo" in text
    assert (hint in text) if hint else ("Did you mean" not in text)


def test_a_missing_extra_is_the_command_that_installs_it():
    error = MissingExtraError.of("the live monitor", "trl")
    said = str(error)
    assert said.startswith("the live monitor needs the extra 'trl': pip install 'buttress[trl]', ")
    assert said.endswith("in a clone pip install '.[trl]'")
