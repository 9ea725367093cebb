"""Exceptions become warnings, once a kind, from the process that speaks."""

from __future__ import annotations

import logging

import pytest

from buttress.hooks.faults import Faults


def fail(faults, fault, **options):
    with faults.shield("do it", "nothing is lost", **options):
        raise fault


def test_a_kind_is_said_once_with_its_traceback_at_debug_level(caplog):
    caplog.set_level(logging.DEBUG, "buttress.hooks")
    faults = Faults()
    fail(faults, KeyError("first"))
    fail(faults, KeyError("second"))
    fail(faults, ValueError("third"))
    levels = [line.levelname for line in caplog.records]
    assert levels == ["WARNING", "DEBUG"] * 2
    assert "KeyError: 'first'" in caplog.records[0].getMessage()
    assert "nothing is lost" in caplog.records[0].getMessage()
    assert "ValueError: third" in caplog.records[2].getMessage()


def test_other_ranks_speak_of_their_own_faults_only(caplog):
    faults = Faults(speaks=False)
    fail(faults, KeyError("shared"))
    faults.warn("shared")
    assert not caplog.records
    fail(faults, ValueError("alone"), own=True)
    assert "alone" in caplog.text


def test_an_interrupt_is_no_fault():
    with pytest.raises(KeyboardInterrupt):
        fail(Faults(), KeyboardInterrupt())


def test_warnings_are_said_once(caplog):
    faults = Faults()
    faults.warn("look")
    faults.warn("look")
    assert caplog.messages == ["look"]
