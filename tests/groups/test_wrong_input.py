"""Wrong input is refused by name and number, never with a traceback of another library."""

import numpy as np
import pytest

from buttress import Groups, Tolerance
from buttress.errors import ButtressError, UsageError

nan = float("nan")

WRONG = {
    "flat list to nested": (lambda: Groups.from_nested([1, 0, 1]), ["entry 0", "from_flat"]),
    "one loose number": (lambda: Groups.from_nested([[1], 0]), ["entry 1"]),
    "a text as a group": (lambda: Groups.from_nested([[1], "10"]), ["entry 1", "'10'"]),
    "deeper lists": (lambda: Groups.from_nested([[[1], [2]]]), ["numbers", "[1]"]),
    "text reward": (lambda: Groups.from_nested([[1, "0.5"]]), ["'0.5'", "position 1"]),
    "text array": (lambda: Groups.from_flat(np.array(["1", "0"]), [0, 0]), ["numbers", "'1'"]),
    "complex": (lambda: Groups.from_flat(np.array([1j]), [0]), ["numbers"]),
    "dates": (lambda: Groups.from_flat(np.array(["2020"], "datetime64[Y]"), [0]), ["numbers"]),
    "ragged to dense": (lambda: Groups.from_dense([[1, 0], [1]]), ["differ in length"]),
    "flat to dense": (lambda: Groups.from_dense([1, 0]), ["1 dimension", "from_flat"]),
    "three dimensions": (lambda: Groups.from_dense(np.zeros((2, 2, 2))), ["3 dimension"]),
    "dense to flat": (lambda: Groups.from_flat(np.zeros((2, 3)), [0, 1]), ["(2, 3)"]),
    "a scalar to flat": (lambda: Groups.from_flat(np.float64(1), [0]), ["()"]),
    "short ids": (lambda: Groups.from_flat([1, 0, 1], ["a", "b"]), ["group_ids", "2", "3"]),
    "one id": (lambda: Groups.from_flat([1, 0], "ab"), ["group_ids", "'ab'"]),
    "id is a number": (lambda: Groups.from_flat([1, 0], 3), ["group_ids"]),
    "ids of two dimensions": (
        lambda: Groups.from_flat([1, 0], np.zeros((2, 1), int)),
        ["group_ids", "(2, 1)"],
    ),
    "unhashable ids": (lambda: Groups.from_flat([1, 0], [["a"], ["b"]]), ["group_ids", "hashable"]),
    "arrays as ids": (
        lambda: Groups.from_flat([1, 0], [np.zeros(2), np.zeros(2)]),
        ["group_ids"],
    ),
    "missing ids": (
        lambda: Groups.from_flat([1, 0, 1], ["a", None, nan]),
        ["group_ids", "2 of 3", "row 1"],
    ),
    "short prompts": (
        lambda: Groups.from_flat([1, 0, 1], [0, 0, 1], prompt_id=["p"]),
        ["prompt_id has 1", "2, one per group", "3, one per row"],
    ),
    "prompts of rows for nested": (
        lambda: Groups.from_nested([[1, 0], [1]], prompt_id=["a", "a", "b"]),
        ["prompt_id has 3", "expected 2"],
    ),
    "one prompt": (lambda: Groups.from_nested([[1, 0]], prompt_id="p"), ["prompt_id", "'p'"]),
    "short steps": (lambda: Groups.from_nested([[1], [0]], step=[1]), ["step has 1", "expected 2"]),
    "steps of rows for dense": (
        lambda: Groups.from_dense(np.zeros((2, 2)), step=[1, 1, 2, 2]),
        ["step has 4", "expected 2"],
    ),
    "half a step": (lambda: Groups.from_nested([[1]], step=1.5), ["step", "whole"]),
    "unknown step": (lambda: Groups.from_flat([1, 1], [0, 0], step=[1, nan]), ["step", "whole"]),
    "no step": (lambda: Groups.from_nested([[1]], step=None), ["step", "whole"]),
    "step as text": (lambda: Groups.from_nested([[1]], step="3"), ["step", "'3'"]),
    "steps of two dimensions": (lambda: Groups.from_nested([[1]], step=[[1]]), ["step", "(1, 1)"]),
    "short column": (
        lambda: Groups.from_flat([1, 0], [0, 0], length=[1]),
        ["'length' has 1", "expected 2"],
    ),
    "column of another shape": (
        lambda: Groups.from_nested([[1, 0], [1]], length=[[1], [2, 3]]),
        ["'length'", "1, 2", "2, 1"],
    ),
    "flat column to dense": (
        lambda: Groups.from_dense(np.zeros((2, 2)), length=[1, 2, 3, 4]),
        ["'length'", "(4,)", "(2, 2)"],
    ),
    "ragged column to dense": (
        lambda: Groups.from_dense(np.zeros((2, 2)), length=[[1], [2, 3]]),
        ["differ in length"],
    ),
    "column of two dimensions": (
        lambda: Groups.from_flat([1, 0], [0, 0], length=np.zeros((2, 2))),
        ["'length'", "(2, 2)"],
    ),
    "negative tolerance": (lambda: Tolerance(atol=-1e-6), ["atol", "-1e-06"]),
    "infinite tolerance": (lambda: Tolerance(rtol=np.inf), ["rtol"]),
    "no resolution": (lambda: Tolerance(resolution=nan), ["resolution"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_named(case):
    call, words = WRONG[case]
    with pytest.raises(UsageError) as caught:
        call()
    message = str(caught.value)
    for word in words:
        assert word in message
    assert isinstance(caught.value, ButtressError)
    assert isinstance(caught.value, ValueError)
    assert len(message) < 400
