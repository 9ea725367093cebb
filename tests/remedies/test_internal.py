"""Self-certainty and negative entropy against SciPy, on NumPy and torch."""

import numpy as np
import pytest
from scipy import stats

from buttress.remedies import create, internal, page

rng = np.random.default_rng(0)
logits = rng.normal(0, 3, (4, 6, 50))
mask = np.arange(6) < np.array([6, 3, 1, 0])[:, None]


def probabilities():
    z = np.exp(logits - logits.max(-1, keepdims=True))
    return z / z.sum(-1, keepdims=True)


def over_tokens(values):
    return [
        row[keep].mean() if keep.any() else np.nan for row, keep in zip(values, mask, strict=True)
    ]


def test_intuitor_is_the_divergence_from_uniform():
    p = probabilities()
    divergence = stats.entropy(np.full_like(p, 1 / 50), p, axis=-1)
    assert internal.self_certainty(logits) == pytest.approx(divergence)
    got = create("intuitor")(logits, mask)
    assert got == pytest.approx(over_tokens(divergence), nan_ok=True)


def test_rent_is_minus_the_entropy():
    entropy = stats.entropy(probabilities(), axis=-1)
    assert internal.token_entropy(logits) == pytest.approx(entropy)
    assert create("rent")(logits, mask) == pytest.approx(
        -np.array(over_tokens(entropy)), nan_ok=True
    )
    got = create("rent").of_tokens(entropy, mask, parsed=[True, False, True, True])
    assert got[1] == -7.0
    assert got[0] == pytest.approx(-entropy[0].mean())


@pytest.mark.parametrize("name", ["intuitor", "rent"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_torch_agrees_and_no_gradient_flows(name, dtype):
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(logits).to(getattr(torch, dtype)).requires_grad_()
    got = create(name)(tensor, torch.tensor(mask))
    assert not got.requires_grad
    assert got.dtype == torch.float32
    expected = create(name)(tensor.detach().float().numpy(), mask)
    assert got.numpy() == pytest.approx(expected, nan_ok=True, abs=1e-5)


@pytest.mark.parametrize("name", ["intuitor", "rent"])
def test_chunks_change_nothing(name, monkeypatch):
    whole = create(name)(logits, mask)
    monkeypatch.setattr(internal, "CHUNK", 1)
    assert create(name)(logits, mask) == pytest.approx(whole, nan_ok=True)
    assert create(name)(logits[:0], mask[:0]).shape == (0,)


def test_extreme_logits_stay_finite():
    extreme = np.array([[[1e4, -1e4, 0.0], [0.0, -np.inf, -np.inf]]])
    assert internal.token_entropy(extreme) == pytest.approx(np.zeros((1, 2)))
    assert internal.self_certainty(extreme[:, :1])[0, 0] == pytest.approx(1e4 - np.log(3))
    with pytest.raises(ValueError, match="unparsed"):
        create("rent", unparsed=-1)


@pytest.mark.parametrize("name", ["intuitor", "rent"])
def test_pages(name):
    found = page(name)
    assert found.kind == "reward"
    assert "arXiv 2505." in found.paper
    assert found.ties
    assert found.cost
    assert found.plugs_in
