"""The corpus: recordings, what causes do to them, and the logs that come of it."""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import buttress as bt
from buttress.errors import UsageError
from buttress.lab.yardstick import recording as recordings
from buttress.lab.yardstick.corpus import Recipe, make, recipes
from buttress.lab.yardstick.draft import PHASES, Draft
from buttress.lab.yardstick.formats import write
from buttress.lab.yardstick.kinds import HEALTHY, KINDS
from buttress.rules import RULES

DATA = Path(__file__).parents[1] / "logs" / "data"
BY_NAME = {kind.name: kind for kind in KINDS}


def run_of(kind: str, number: int = 0, recording: str | None = None, format: str | None = None):
    """Make one run of a kind."""
    one = BY_NAME[kind]
    chosen = recording or one.recordings[0]
    return make(Recipe(number, one, chosen, format or one.formats[0]))


def through_all_phases(name: str) -> Draft:
    draft = Draft.of(name)
    for phase in PHASES:
        draft.enter(phase)
    return draft


class TestRecordings:
    def test_they_are_small(self):
        assert sum(path.stat().st_size for path in recordings.SHIPPED.glob("*.npz")) < 1e6

    @pytest.mark.parametrize("name", recordings.names())
    def test_a_round_trip_changes_nothing(self, name, tmp_path):
        one = recordings.recording(name)
        again = recordings.load(one.save(tmp_path))
        assert (again.texts == one.texts).all()
        assert (again.prompts == one.prompts).all()
        assert (again.steps == one.steps).all()
        assert (again.ended == one.ended).all()
        for key, values in one.scalars.items():
            np.testing.assert_allclose(again.scalars[key], values)

    def test_an_unknown_name_is_refused(self):
        with pytest.raises(UsageError, match="unknown recording 'nothing'"):
            recordings.recording("nothing")

    @pytest.mark.parametrize("name", recordings.names())
    def test_untouched_the_metrics_are_those_of_the_recording(self, name):
        draft = through_all_phases(name)
        spread = {
            step: np.ptp(draft.reward[draft.steps == step], axis=1).max()
            for step in draft.logged_steps
        }
        mixed = np.array([spread[step] > 0 for step in draft.logged_steps])
        for key, values in draft.base.scalars.items():
            np.testing.assert_allclose(draft.scalars[key][mixed], values[mixed], rtol=1e-6)


class TestCorpus:
    def test_every_kind_has_its_turn_and_names_rules_that_exist(self):
        made = list(recipes(3 * len(KINDS)))
        assert {one.kind.name for one in made} == set(BY_NAME)
        for kind in KINDS:
            assert set(kind.labels) | kind.accepted <= set(RULES)
            assert not set(kind.labels) & kind.accepted
            assert kind.recordings
            assert kind.formats

    def test_every_kind_is_in_both_halves(self):
        halves = defaultdict(set)
        for one in recipes(2 * len(KINDS)):
            halves[one.kind.name].add(one.half)
        assert all(len(seen) == 2 for seen in halves.values())

    def test_it_is_large_enough(self):
        from buttress.lab.yardstick.bench import RUNS

        made = list(recipes(RUNS))
        assert len(made) >= 200
        assert {one.format for one in made} == {"trl", "verl", "verl-v1", "generic"}

    @pytest.mark.parametrize("kind", ["plain", "too_hard", "any_order", "frozen"])
    def test_no_two_runs_are_alike(self, kind):
        one = BY_NAME[kind].recordings[0]
        drafts = [run_of(kind, number, one) for number in range(4)]
        assert len({str((d.texts.shape, d.texts.tolist())) for d in drafts}) == 4

    def test_a_run_follows_from_its_number(self, tmp_path):
        for name in ("one", "other"):
            write(run_of("time_outs", 3), "generic", tmp_path / name)
        texts = [(tmp_path / name / "rollouts.jsonl").read_bytes() for name in ("one", "other")]
        assert texts[0] == texts[1]


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS])
def test_what_is_written_is_read(kind, tmp_path):
    """Rewards by step: the reader sees what the draft has, in a form drawn per kind."""
    at = [one.name for one in KINDS].index(kind)
    form = BY_NAME[kind].formats[at % len(BY_NAME[kind].formats)]
    draft = run_of(kind, at, format=form)
    write(draft, form, tmp_path / "run")
    run = bt.read(tmp_path / "run")
    assert run.problems == ()
    assert run.groups.n_samples == draft.kept.sum()
    reward = draft.reward
    step = run.groups.step[run.groups.group_of]
    for one in np.unique(step):
        rows = draft.kept & (draft.steps == one)[:, None]
        np.testing.assert_allclose(
            np.sort(run.groups.rewards[step == one]), np.sort(reward[rows]), rtol=1e-6, atol=1e-12
        )


class TestForms:
    def test_trl_has_the_columns_of_real_files(self, tmp_path):
        write(run_of("plain"), "trl", tmp_path / "run")
        ours = pl.read_parquet(min((tmp_path / "run").rglob("*.parquet")))
        place = DATA / "trl_plain"
        real = pl.read_parquet(place / "completions/completions_00001.parquet")
        kept = [name for name in real.columns if name != "brevity_reward"]
        assert ours.columns == kept
        assert ours.dtypes == [real.schema[name] for name in kept]
        state = next((tmp_path / "run").rglob("trainer_state.json"))
        line = json.loads(state.read_text())["log_history"][0]
        written = json.loads((place / "checkpoint-6/trainer_state.json").read_text())
        assert line.keys() <= {*written["log_history"][0], "kl"}

    @pytest.mark.parametrize(("form", "real"), [("verl", "verl_legacy"), ("verl-v1", "verl_v1")])
    def test_verl_has_the_keys_of_its_dumps(self, form, real, tmp_path):
        write(run_of("plain"), form, tmp_path / "run")
        ours = min((tmp_path / "run" / "rollouts").iterdir()).read_text().splitlines()[0]
        theirs = (DATA / real / "1.jsonl").read_text(encoding="utf-8").splitlines()[0]
        assert json.loads(ours).keys() <= json.loads(theirs).keys()


class TestCauses:
    """Each cause did what it says, by other means than the rules'."""

    def test_a_cap_cuts_and_what_is_cut_is_wrong(self):
        for number, name in enumerate(("trl_learns", "learns_rloo")):
            draft = run_of("length_cap", number, name)
            cap = draft.lengths.max()
            assert max(len(text) for text in draft.texts.ravel()) <= max(cap, 1)
            assert (~draft.ended).mean() > 0.75
            assert (draft.correct[~draft.ended] == 0).all()

    def test_copies_are_copies(self):
        draft = run_of("copies", recording="hard")
        assert np.mean([len(set(texts)) == 1 for texts in draft.texts]) > 0.8

    def test_two_piles(self):
        draft = run_of("two_piles")
        mean = draft.correct.mean(axis=1)
        assert (mean == 1).sum() == len(mean) // 2
        assert (mean[mean < 1] < 0.5).all()

    def test_time_outs_leave_no_score_and_no_advantage(self):
        draft = run_of("time_outs")
        lost = np.isnan(draft.reward)
        assert 0.05 < lost.mean() < 0.55
        assert (draft.advantages[lost] == 0).all()

    def test_frozen_weights_have_groups_with_a_signal(self):
        draft = run_of("frozen")
        assert (draft.scalars["grad_norm"] == 0).all()
        assert (draft.scalars["learning_rate"] > 0).all()
        assert (np.ptp(draft.reward, axis=1) > 0).mean() > 0.5

    def test_the_kl_term_alone_moves_a_run_without_verdicts(self):
        draft = run_of("kl_only")
        assert (draft.advantages == 0).all()
        assert (draft.scalars["grad_norm"] > 0).all()
        assert (draft.scalars["kl"] > 0).all()

    def test_a_step_without_advantages_has_no_gradient(self):
        draft = run_of("broken_parser", recording="learns")
        assert (draft.scalars["grad_norm"] == 0).all()

    def test_float32_is_that_of_torch(self):
        torch = pytest.importorskip("torch")
        draft = run_of("float_noise", recording="solved")
        tied = np.ptp(draft.reward, axis=1) == 0
        assert np.abs(draft.advantages[tied]).max() > 0.05
        for reward, found in zip(draft.reward[:200], draft.advantages[:200], strict=False):
            one = torch.tensor(reward, dtype=torch.float32)
            if reward.max() > reward.min():
                expected = (one - one.mean()) / (one.std() + 1e-9)
                np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-5)

    def test_a_leave_one_out_divisor(self):
        draft = run_of("divisor", recording="learns")
        beyond = 0
        for reward, found in zip(draft.reward, draft.advantages, strict=True):
            others = [np.delete(reward, at) for at in range(len(reward))]
            centred = reward - [one.mean() for one in others]
            deviation = np.array([one.std() for one in others])
            plain = deviation > 1e-9
            np.testing.assert_allclose(found[plain], (centred / np.maximum(deviation, 1e-9))[plain],
                                       rtol=0.01)  # fmt: skip
            beyond += bool((np.abs(found) > 100).any())
        assert beyond

    def test_ids_that_name_no_group(self):
        size = run_of("plain").reward.shape[1]
        per_id = {
            kind: np.unique(run_of(kind).ids, return_counts=True)[1]
            for kind in ("single_ids", "merged_ids", "rank_fragments", "shuffled_ids")
        }
        assert set(per_id["single_ids"]) == {1}
        assert per_id["merged_ids"].max() >= 2 * min(size, 6)
        assert per_id["rank_fragments"].max() <= 4
        draft = run_of("shuffled_ids")
        prompts = np.broadcast_to(draft.prompts[:, None], draft.ids.shape)
        first = draft.ids == draft.ids[0, 0]
        assert len(set(prompts[first])) > 1

    @pytest.mark.parametrize("kind", ["filtered", "refilled"])
    def test_a_filter_leaves_mixed_groups_alone(self, kind):
        draft = run_of(kind)
        kept = draft.kept.all(axis=1)
        assert (np.ptp(draft.reward[kept], axis=1) > 0).all()
        per_step = np.bincount(draft.steps[kept])[draft.logged_steps]
        assert (len(set(per_step)) == 1) is (kind == "refilled")

    def test_near_ties_are_no_ties(self):
        draft = run_of("near_ties", recording="masters")
        apart = np.ptp(draft.reward, axis=1)[np.ptp(draft.correct, axis=1) == 0]
        assert apart.min() > 1e-6
        assert apart.max() < 0.02

    def test_lost_answers_were_right_before(self):
        draft = run_of("lost_answers")
        right = recordings.verdicts(draft.base.judge, draft.texts, draft.answers, draft.ended)
        lost = (right - draft.correct).astype(bool)
        assert lost.any()
        assert draft.steps[lost.any(axis=1)].min() > np.median(draft.steps)

    @pytest.mark.parametrize("kind", [kind.name for kind in HEALTHY])
    def test_healthy_runs_have_a_signal(self, kind):
        draft = run_of(kind)
        assert np.mean(np.ptp(np.nan_to_num(draft.reward), axis=1) > 0) > 0.5
        assert np.isfinite(draft.reward).mean() > 0.95
