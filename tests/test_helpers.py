"""An optional module is skipped, unless everything is required."""

import math

import pytest

from tests.helpers import require


@pytest.mark.parametrize("flag", ["0", "1"])
def test_a_module_that_is_there(monkeypatch, flag):
    monkeypatch.setenv("BUTTRESS_REQUIRE_ALL", flag)
    assert require("math") is math


def test_a_missing_module_is_skipped(monkeypatch):
    monkeypatch.delenv("BUTTRESS_REQUIRE_ALL", raising=False)
    with pytest.raises(pytest.skip.Exception):
        require("no_module_of_this_name")


def test_a_missing_module_fails_where_all_is_required(monkeypatch):
    monkeypatch.setenv("BUTTRESS_REQUIRE_ALL", "1")
    with pytest.raises(ModuleNotFoundError):
        require("no_module_of_this_name")
