"""What every registered estimator has to do, whatever its formula."""

import copy
import json
import pickle
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import buttress as bt
from buttress.remedies import registry
from buttress.remedies.dense import Dense
from buttress.remedies.view import View

NAMES = registry.names("advantage", "token")  # the latter without token columns
UNORDERED = [name for name in NAMES if not registry.lookup(name).ordered]
SILENT = [name for name in NAMES if not registry.lookup(name).signals_ties]

# Every column that some estimator asks for.
COLUMNS = ("entropy", "reward/a", "reward/b")


def batch(rewards, seed=0, prompts=True):
    """Groups with every column, and prompts of which two come twice."""
    rewards = [list(row) for row in rewards]
    draws = np.random.default_rng(seed)
    sizes = [len(row) for row in rewards]
    columns = {name: [draws.uniform(0.1, 1, n).tolist() for n in sizes] for name in COLUMNS[:1]}
    # components that add up to the reward
    for name, share in (("reward/a", 0.25), ("reward/b", 0.75)):
        columns[name] = [[None if r is None else share * r for r in row] for row in rewards]
    ids = [f"p{i % max(len(rewards) - 2, 1)}" for i in range(len(rewards))] if prompts else None
    return bt.Groups.from_nested(rewards, prompt_id=ids, **columns)


def on_torch(groups, dtype="float64", gradient=False):
    """The same rewards as a tensor; with a gradient they stay in torch all the way."""
    torch = pytest.importorskip("torch")
    values = torch.tensor(groups.rewards, dtype=getattr(torch, dtype), requires_grad=gradient)
    return groups.with_rewards(values)


def history(est, steps=3, size=4):
    """Let an estimator see a few steps."""
    draws = np.random.default_rng(5)
    for step in range(steps):
        est(batch(draws.integers(0, 2, (6, size)).tolist(), seed=step))
    return est


MIXED = [[1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 1, 1, 1], [0.5, 0.25], [1, None, 0]]

reward = st.one_of(
    st.sampled_from([0.0, 1.0, -1.0, 0.1, 0.7, 2.1, 0.5]), st.floats(-5, 5), st.just(None)
)
rewards_of_groups = st.lists(st.lists(reward, max_size=9), max_size=8)

every = pytest.mark.parametrize("name", NAMES)
quick = settings(max_examples=25, deadline=None)


@every
def test_page(name):
    page = registry.page(name)
    assert re.search(r"arXiv \d{4}\.\d{5}", page.paper) or "ours" in page.paper
    for part in ("title", "formula", "ties", "cost", "plugs_in", "defaults"):
        assert getattr(page, part), part
    assert "=" in page.formula
    json.dumps(page.options)


@every
@quick
@given(rewards_of_groups, st.integers(0, 9), st.booleans())
def test_numpy_and_torch_agree(name, rewards, seed, gradient):
    groups = batch(rewards, seed)
    one, other = bt.estimator(name), bt.estimator(name)
    for _ in range(2):
        expected, got = one(groups), other(on_torch(groups, gradient=gradient))
        assert expected.dtype == np.float64
        assert on_numpy(got) == pytest.approx(expected, abs=1e-6)
    for name, value in one.reading.items():
        exact = isinstance(value, list | str)
        assert other.reading[name] == (value if exact else pytest.approx(value, nan_ok=True))


@pytest.mark.parametrize("name", UNORDERED)
@quick
@given(rewards_of_groups, st.integers(0, 9))
def test_permuting_samples_permutes_the_result(name, rewards, seed):
    groups = batch(rewards, seed)
    draws = np.random.default_rng(seed)
    order = np.concatenate(
        [
            a + draws.permutation(b - a)
            for a, b in zip(groups.offsets, groups.offsets[1:], strict=False)
        ]
        or [np.array([], dtype=int)]
    ).astype(int)
    permuted = bt.Groups(
        values=groups.values[order],
        offsets=groups.offsets,
        order=groups.order,
        step=groups.step,
        group_id=groups.group_id,
        prompt=groups.prompt,
        prompt_labels=groups.prompt_labels,
        columns={key: column[order] for key, column in groups.columns.items()},
    )
    expected = bt.estimator(name)(groups)[order]
    assert bt.estimator(name)(permuted) == pytest.approx(expected, abs=1e-9)


@every
@quick
@given(rewards_of_groups, st.integers(0, 9))
def test_permuting_groups_permutes_the_result(name, rewards, seed):
    groups = batch(rewards, seed)
    order = np.random.default_rng(seed).permutation(len(groups))
    place = np.concatenate(
        [np.arange(groups.offsets[g], groups.offsets[g + 1]) for g in order] or [[]]
    ).astype(int)
    one, other = bt.estimator(name), bt.estimator(name)
    for _ in range(2):
        expected, got = one(groups)[place], other(groups.select(order))
        assert got == pytest.approx(expected, abs=1e-9)


@every
@quick
@given(rewards_of_groups, st.integers(1, 5), st.integers(0, 9))
def test_ragged_equals_padded(name, rewards, padding, seed):
    """Unscorable samples at the end of a group change nothing, and get 0."""
    groups = batch(rewards, seed)
    width = max((len(row) for row in rewards), default=0) + padding
    real = np.arange(width) < groups.sizes[:, None]
    values = np.full(real.shape, np.nan)
    values[real] = groups.rewards
    columns = {}
    for key, column in groups.columns.items():
        columns[key] = np.full(real.shape, np.nan)
        columns[key][real] = column
    padded = bt.Groups.from_dense(values, prompt_id=list(groups.prompt_id), **columns)
    got = bt.estimator(name)(padded)
    assert got[real.reshape(-1)] == pytest.approx(bt.estimator(name)(groups), abs=1e-9)
    assert (got[~real.reshape(-1)] == 0).all()


@every
@quick
@given(rewards_of_groups, st.integers(0, 9))
def test_unscorable_samples_get_zero_and_no_nan_comes_out(name, rewards, seed):
    groups = batch(rewards, seed)
    est = history(bt.estimator(name))
    got = est(groups)
    assert np.isfinite(got).all()
    assert (got[np.isnan(groups.rewards)] == 0).all()


@every
@quick
@given(st.lists(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2), max_size=4))
def test_no_nan_for_any_finite_input(name, rewards):
    for prompts in (True, False):
        est = bt.estimator(name)
        groups = batch(rewards, prompts=prompts)
        for _ in range(2):
            assert np.isfinite(est(groups)).all()


@pytest.mark.parametrize("name", SILENT)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(st.floats(-1e3, 1e3, width=32), st.sampled_from([2, 3, 8, 10, 16, 64]))
@quick
def test_tied_groups_are_exactly_zero(name, dtype, value, size):
    """Eight times 0.7 has a deviation of 6e-8 in float32; the advantages are 0 all the same."""
    twins = np.full((3, size), value, dtype=dtype)
    rewards = np.concatenate([twins.astype(float), [np.arange(size) % 2]])
    groups = batch(rewards.tolist()).with_rewards(
        np.concatenate([twins.reshape(-1), (np.arange(size) % 2).astype(dtype)])
    )
    est = history(bt.estimator(name), size=size)
    assert (np.asarray(est(groups))[: 3 * size] == 0).all()
    for gradient in (False, True):
        got = est(on_torch(groups, dtype, gradient))
        assert (on_numpy(got)[: 3 * size] == 0).all()


def on_numpy(values):
    return values.detach().numpy()


@every
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_dtype_comes_back(name, dtype):
    torch = pytest.importorskip("torch")
    groups = on_torch(batch(MIXED), dtype)
    got = bt.estimator(name)(groups)
    assert got.dtype == getattr(torch, dtype)
    expected = bt.estimator(name)(batch(MIXED))
    tolerance = {"float16": 2e-3, "bfloat16": 2e-2}.get(dtype, 1e-6)
    assert got.float().numpy() == pytest.approx(expected, rel=tolerance, abs=tolerance)


@every
def test_gradient_is_finite_where_the_rewards_carry_one(name):
    torch = pytest.importorskip("torch")
    groups = batch([[0.7] * 8, [1, 0, 0, 1], [0, 1, 0.5], [1, 1]])
    values = torch.tensor(groups.rewards, requires_grad=True)
    got = bt.estimator(name)(groups.with_rewards(values))
    assert np.isfinite(on_numpy(got)).all()
    if got.requires_grad:
        got.square().sum().backward()
        assert torch.isfinite(values.grad).all()


@every
def test_empty_batches(name):
    est = bt.estimator(name)
    assert est.reading == {}
    for rewards in ([], [[], []], [[None, None]], [[1]]):
        assert np.isfinite(est(batch(rewards))).all()
    assert est.reading["groups"] == 1


@every
def test_state_survives_json_and_goes_on(name):
    est = history(bt.estimator(name))
    twin = bt.estimator(name)
    twin.load_state_dict(json.loads(json.dumps(est.state_dict())))
    assert twin.state_dict() == est.state_dict()
    groups = batch(MIXED)
    for _ in range(2):
        assert twin(groups).tolist() == est(groups).tolist()
    with pytest.raises(ValueError, match="belongs to"):
        est.load_state_dict({"estimator": "Other"})


@every
def test_merging_with_a_fresh_estimator_changes_nothing(name):
    est = history(bt.estimator(name))
    before = est.state_dict()
    est.merge(bt.estimator(name))
    assert est.state_dict() == before
    fresh = bt.estimator(name)
    fresh.merge(est)
    groups = batch(MIXED)
    assert fresh(groups) == pytest.approx(est(groups), abs=1e-9)


@every
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda est: pickle.loads(pickle.dumps(est))])
def test_a_copy_goes_on_like_the_original(name, copied):
    est = history(bt.estimator(name))
    other = copied(est)
    assert repr(other.reading) == repr(est.reading)
    groups = batch(MIXED)
    assert other(groups) == pytest.approx(est(groups), abs=1e-12)


@every
def test_merging_ranks_is_symmetric(name):
    draws = np.random.default_rng(3)
    one, other = (history(bt.estimator(name)) for _ in range(2))
    other(batch(draws.random((4, 4)).tolist()))
    mirror = bt.estimator(name)
    mirror.load_state_dict(other.state_dict())
    mirror.merge(one)
    one.merge(other)
    groups = batch(MIXED)
    assert one(groups) == pytest.approx(mirror(groups), abs=1e-9)


@every
def test_ranks_with_shared_statistics_equal_one_process(name):
    """Each rank passes the summed statistics of the step; prompts do not span ranks here."""
    options = {"norm": "own"} if name == "posterior" else {}  # its default wants the step whole
    whole = batch(MIXED, prompts=False)
    part = [whole.select(np.arange(len(whole)) % 2 == rank) for rank in (0, 1)]
    est = [bt.estimator(name, **options) for _ in part]
    total = est[0].statistics(part[0]) + est[1].statistics(part[1])
    got = np.empty(whole.n_samples)
    for rank, groups in enumerate(part):
        got[groups.order] = est[rank](groups, batch=total)
    assert got == pytest.approx(bt.estimator(name, **options)(whole), abs=1e-9)


@every
def test_array_api_strict(name):
    """The formula itself stays inside the array API standard."""
    strict = pytest.importorskip("array_api_strict")
    groups = batch(MIXED)
    est, twin = bt.estimator(name), bt.estimator(name)
    view = View.of(groups, est.tolerance)
    expected = twin(groups)
    batched = est.statistics(groups) if est.batchwide else None
    est.prepare(batched)
    for block in view.blocks:
        plain = {key: getattr(block, key) for key in block.__dataclass_fields__}
        plain["xp"] = strict
        for key in ("rewards", "mask"):
            value = plain[key]
            plain[key] = None if value is None else strict.asarray(value)
        cells = np.asarray(est.compute(Dense(**plain), batched))
        assert cells.shape == block.rewards.shape
        assert np.isfinite(cells[block.scorable >= 2]).all()
    assert np.isfinite(expected).all()


@pytest.mark.parametrize("name", UNORDERED)
def test_rows_in_any_order(name):
    groups = batch(MIXED)
    ids = groups.group_of
    order = np.random.default_rng(2).permutation(len(ids))
    order = order[np.argsort(ids[order] != ids[0], kind="stable")]  # the first group stays first
    columns = {key: column[order] for key, column in groups.columns.items()}
    got = bt.advantages(
        groups.rewards[order],
        ids[order],
        method=name,
        prompt_id=[groups.prompt_id[g] for g in ids[order]],
        columns=columns,
    )
    expected = bt.estimator(name)(groups)[order]
    assert got == pytest.approx(expected, abs=1e-9)


def test_unknown_names_and_options():
    with pytest.raises(ValueError, match="Did you mean 'grpo'"):
        bt.estimator("grpoo")
    with pytest.raises(ValueError, match="Did you mean 'eps'"):
        bt.estimator("grpo", epz=1)
    with pytest.raises(ValueError, match="registered already"):
        registry.remedy("grpo", "advantage")(object)
    with pytest.raises(ValueError, match="unknown kind"):
        registry.remedy("new", "advantages")
