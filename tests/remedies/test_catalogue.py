"""The registry and the pages that it reads off classes."""

import inspect

import pytest

import buttress as bt
from buttress.remedies import page, registry, remedies

# fmt: off
METHODS = {
    "grpo", "dr_grpo", "global_norm", "rloo", "reinforce_pp", "reinforce_pp_baseline", "gdpo",
    "bnpo", "avspo", "filter_drop", "dcpo", "f_grpo", "is_grpo", "maxnorm_ac", "mcpo", "ngrpo",
    "edge_grpo", "qae", "a_grae", "ha_dw", "spo", "krpo", "sign", "rl_zvp", "posterior",
}
# fmt: on


def test_every_advantage_method_is_there():
    assert METHODS <= {one.name for one in remedies("advantage")}


def test_a_page_is_read_off_the_class():
    found = page("avspo")
    assert found.kind == "advantage"
    assert "2605.21125" in found.paper
    assert found.options["threshold"] == "adaptive"
    assert "tolerance" not in found.options
    assert found.formula.startswith("A_i = (r_i - mean')")
    assert "sqrt(K/G)" in found.ties
    assert found.inferred
    assert page("dr_grpo").inferred == ""


def test_pages_of_a_kind():
    assert all(one.kind == "loss" for one in remedies("loss"))
    assert {one.kind for one in remedies()} >= {"advantage", "loss"}


def test_a_loss_is_no_estimator():
    name = registry.names("loss")[0]
    with pytest.raises(ValueError, match=f"{name!r} is a loss remedy"):
        bt.estimator(name)


def test_options_do_not_hide_behind_the_arguments_of_advantages():
    taken = set(inspect.signature(bt.advantages).parameters) - {"options"}
    for one in remedies("advantage"):
        assert not taken & set(one.options), one.name


def test_a_third_party_enters_its_own():
    @registry.remedy("half", "advantage")
    class Half(bt.remedies.Estimator):
        def compute(self, block, batch):
            return block.centred / 2

    try:
        assert bt.advantages([1, 0], [0, 0], method="half").tolist() == [0.25, -0.25]
    finally:
        del registry._REGISTRY["half"], registry._KINDS["half"]
