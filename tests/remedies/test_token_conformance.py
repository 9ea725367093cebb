"""What every estimator of kind ``token`` has to do with token columns, whatever its formula."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import buttress as bt
from buttress.remedies import TokenColumns, registry
from buttress.remedies.token_credit import TokenCells
from tests.remedies.tokens import MIXED, batch, each, on_torch

NAMES = registry.names("token")
every = pytest.mark.parametrize("name", NAMES)
quick = settings(max_examples=20, deadline=None)

reward = st.one_of(st.sampled_from([0.0, 1.0, -1.0, 0.1, 0.7]), st.floats(-5, 5), st.just(None))
rewards_of_groups = st.lists(st.lists(reward, max_size=6), max_size=6)


def needs(name):
    kind = registry.lookup(name)
    return [*kind.needs, *[one for one in kind.takes if one not in kind.needs]]


@every
def test_the_page_names_its_columns(name):
    for column in needs(name):
        assert f"`{column}`" in registry.page(name).page
    assert "token" in registry.page(name).plugs_in


@every
@quick
@given(rewards_of_groups, st.integers(0, 9), st.integers(0, 12))
def test_finite_and_exactly_zero_where_masked(name, rewards, seed, width):
    groups, tokens = batch(rewards, seed, width)
    est = bt.estimator(name)
    got = est(groups, tokens)
    assert got.shape == tokens.mask.shape
    assert got.dtype == np.float64
    assert np.isfinite(got).all()
    assert (got[tokens.mask == 0] == 0).all()
    assert (got[np.isnan(groups.rewards)] == 0).all()
    assert est.reading["missing"] == []


@every
@quick
@given(rewards_of_groups, st.integers(0, 9))
def test_numpy_and_torch_agree(name, rewards, seed):
    torch = pytest.importorskip("torch")
    groups, tokens = batch(rewards, seed)
    expected = bt.estimator(name)(groups, tokens)
    as_torch = groups.with_rewards(torch.tensor(groups.rewards, dtype=torch.float64))
    got = bt.estimator(name)(as_torch, on_torch(tokens))
    assert got.numpy() == pytest.approx(expected, abs=1e-9)
    crossed = bt.estimator(name)(groups, on_torch(tokens))
    assert crossed == pytest.approx(expected, abs=1e-9)
    assert bt.estimator(name)(as_torch, tokens).numpy() == pytest.approx(expected, abs=1e-9)


@every
@quick
@given(rewards_of_groups, st.integers(0, 9))
def test_permuting_samples_permutes_the_rows(name, rewards, seed):
    groups, tokens = batch(rewards, seed)
    order = np.random.default_rng(seed).permutation(groups.n_samples)
    shuffled = bt.Groups.from_flat(groups.rewards[order], groups.group_of[order])
    # rows of the input, brought into the order of the samples
    rows = each(tokens, lambda _, values: values[order]).select(shuffled.order)
    got = bt.estimator(name)(shuffled, rows)
    expected = bt.estimator(name)(groups, tokens)
    assert got == pytest.approx(expected[order][shuffled.order], abs=1e-9)


@every
@quick
@given(rewards_of_groups, st.integers(0, 9), st.integers(1, 4), st.booleans())
def test_padding_changes_nothing_whatever_it_holds(name, rewards, seed, extra, left):
    groups, tokens = batch(rewards, seed)

    def pad(column, values):
        if column == "prior":
            return values
        fill = 0 if column == "mask" else np.nan
        block = np.full((len(values), extra), fill, dtype=values.dtype)
        return np.concatenate([block, values] if left else [values, block], axis=1)

    got = bt.estimator(name)(groups, each(tokens, pad))
    got = got[:, extra:] if left else got[:, : got.shape[1] - extra]
    assert got == pytest.approx(bt.estimator(name)(groups, tokens), abs=1e-9)


@every
@quick
@given(rewards_of_groups, st.integers(0, 9))
def test_a_group_is_its_own_business(name, rewards, seed):
    """Of a batch with the same levels of reward, each group could have come alone."""
    groups, tokens = batch(rewards, seed)
    est = bt.estimator(name)
    est(groups)
    whole = est(groups, tokens)
    for g in range(len(groups)):
        rows = np.arange(groups.offsets[g], groups.offsets[g + 1])
        part = est(groups.select(np.array([g])), tokens.select(rows))
        assert part == pytest.approx(whole[rows], abs=1e-9)


@every
def test_without_columns_one_value_per_sample(name):
    groups, tokens = batch()
    est = bt.estimator(name)
    flat = est(groups)
    assert flat.shape == (groups.n_samples,)
    assert flat == pytest.approx(bt.advantages(groups.rewards, groups.group_of, method=name))
    assert est.reading["missing"]
    tied = [g for g in range(len(MIXED)) if set(MIXED[g]) in ({0}, {1}, {0.5})]
    assert (flat[np.isin(groups.group_of, tied)] == 0).all()
    assert est(groups, tokens).shape == tokens.mask.shape
    assert est.reading["missing"] == []
    assert est.reading["acr_after"] <= est.reading["acr"]


@every
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_kind_and_dtype_of_the_rewards_come_back(name, dtype):
    torch = pytest.importorskip("torch")
    groups, tokens = batch()
    values = torch.tensor(groups.rewards, dtype=getattr(torch, dtype))
    columns = on_torch(tokens)
    entropy = columns.entropy.clone().requires_grad_()
    got = bt.estimator(name)(groups.with_rewards(values), replace(columns, entropy=entropy))
    assert got.dtype == values.dtype
    assert not got.requires_grad
    close = {"float16": 2e-3, "bfloat16": 2e-2}.get(dtype, 1e-6)
    expected = bt.estimator(name)(groups, tokens)
    assert got.float().numpy() == pytest.approx(expected, rel=close, abs=close)


@every
def test_state_goes_on_and_an_error_leaves_it_alone(name):
    groups, tokens = batch()
    est, twin = bt.estimator(name), bt.estimator(name)
    est(groups, tokens)
    twin(groups)
    assert est.state_dict() == twin.state_dict()
    before = est.state_dict()
    other, some = batch([[5, -5]])
    with pytest.raises(
        ValueError, match=rf"mask has shape \({len(tokens.mask)}, 9\); expected \(2,"
    ):
        est(other, tokens)
    broken = each(some, lambda _, values: values * np.nan)
    with pytest.raises(ValueError, match=" at 2 places, first at"):
        est(other, replace(broken, mask=np.eye(2, 9)))
    assert est.state_dict() == before


@every
def test_missing_columns_are_named_all_at_once(name):
    groups, tokens = batch()
    required = registry.lookup(name).needs
    if required:
        with pytest.raises(ValueError, match=f"lack {', '.join(required)}; given: mask"):
            bt.estimator(name)(groups, TokenColumns(tokens.mask))


@every
def test_wrong_shapes_are_named_all_at_once(name):
    groups, tokens = batch()
    n = groups.n_samples
    wrong = replace(tokens, entropy=tokens.entropy[:, 1:], prior=tokens.belief)
    with pytest.raises(
        ValueError,
        match=rf"entropy has shape \({n}, 8\), expected \({n}, 9\); "
        rf"prior has shape \({n}, 9\), expected \({n},\)",
    ):
        bt.estimator(name)(groups, wrong)


@every
def test_a_number_that_is_none_is_refused_with_its_place(name):
    groups, tokens = batch()
    column = next(one for one in needs(name) if one not in ("belief", "prior"))
    row, place = np.argwhere(tokens.mask)[3]
    values = getattr(tokens, column).copy()
    values[row, place] = np.nan
    values[tokens.mask == 0] = np.inf
    with pytest.raises(ValueError, match=rf"{column} is not finite at 1 .*\[{row}, {place}\]"):
        bt.estimator(name)(groups, replace(tokens, **{column: values}))


@every
def test_array_api_strict(name):
    """The formula itself stays inside the array API standard."""
    strict = pytest.importorskip("array_api_strict")
    groups, tokens = batch()
    est = bt.estimator(name)
    expected, flat = est(groups, tokens), est(groups)
    summary = est._view(groups).summary
    cells = TokenCells.of(groups, summary, tokens, needs(name)).with_advantage(flat)
    strictly = replace(
        cells,
        xp=strict,
        mask=strict.asarray(cells.mask),
        advantage=strict.asarray(cells.advantage),
        columns={key: strict.asarray(value) for key, value in cells.columns.items()},
    )
    got = np.asarray(strictly.hide(est.spread(strictly)))
    assert got == pytest.approx(expected, abs=1e-9)
