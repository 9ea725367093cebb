"""The recipes for verl are stock configurations: verl composes them, and knows their names."""

from __future__ import annotations

from pathlib import Path

import pytest

hydra = pytest.importorskip("hydra")
pytest.importorskip("verl")

RECIPES = Path(__file__).parents[2] / "recipes" / "verl"


OTHER = [
    "~algorithm.buttress",
    "algorithm.adv_estimator=buttress_dr_grpo",
    "actor_rollout_ref.actor.policy_loss.loss_mode=buttress_sapo",
]


@pytest.mark.verl
@pytest.mark.parametrize("overrides", [[], OTHER], ids=["as it stands", "another remedy and loss"])
def test_verl_composes_the_recipe_and_knows_its_names(overrides):
    from verl.trainer.ppo import core_algos

    text = (RECIPES / "avspo.yaml").read_text()
    assert all(one in text for one in overrides)
    with hydra.initialize_config_dir(str(RECIPES), version_base=None):
        config = hydra.compose(config_name="avspo", overrides=overrides)
    estimator = core_algos.get_adv_estimator_fn(config.algorithm.adv_estimator)
    assert estimator.name == config.algorithm.adv_estimator.removeprefix("buttress_")
    estimator.built(config.algorithm)
    loss = config.actor_rollout_ref.actor.policy_loss.loss_mode
    assert core_algos.get_policy_loss_fn(loss) is not None
    assert config.actor_rollout_ref.rollout.n == 8
    assert config.trainer.rollout_data_dir == "runs/verl-avspo"
