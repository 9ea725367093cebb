"""The registry and the pages that it reads off classes."""

import inspect

import numpy as np
import pytest

import buttress as bt
from buttress.remedies import page, registry, remedies

# fmt: off
METHODS = {
    "grpo", "dr_grpo", "global_norm", "rloo", "reinforce_pp", "reinforce_pp_baseline", "gdpo",
    "bnpo", "avspo", "filter_drop", "dcpo", "f_grpo", "is_grpo", "maxnorm_ac", "mcpo", "ngrpo",
    "edge_grpo", "qae", "a_grae", "ha_dw", "spo", "krpo", "sign", "posterior",
}
# fmt: on
TOKEN_METHODS = {"ep_grpo", "grpo_vps", "rl_zvp"}


def test_every_advantage_method_is_there():
    assert {one.name for one in remedies("advantage")} >= METHODS


def test_every_token_method_is_there():
    assert {one.name for one in remedies("token")} >= TOKEN_METHODS


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


@pytest.mark.parametrize("name", registry.names())
def test_every_name_gives_advantages(name):
    """What is no estimator stands for the one that its paper pairs it with."""
    rewards, ids = [1, 0, 0, 0.5, 0.5], [7, 7, 7, 8, 8]
    stands_for = {"dr_grpo_loss": "dr_grpo", "dcpo_clip": "dcpo", "mcpo_hinge_kl": "mcpo"}
    kind = page(name).kind
    known = kind in ("advantage", "token")
    expected = name if known else stands_for.get(name, "grpo")
    assert type(bt.estimator(name)) is registry.lookup(expected)
    got = bt.advantages(rewards, ids, method=name)
    assert got.shape == (5,)
    assert np.isfinite(got).all()
    if not known:
        assert got.tolist() == bt.advantages(rewards, ids, method=expected).tolist()


def test_options_are_those_of_the_estimator():
    assert bt.estimator("sapo", eps=0.5).eps == 0.5
    with pytest.raises(ValueError, match="unknown option of grpo 'temperature_pos'"):
        bt.estimator("sapo", temperature_pos=1.0)


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
