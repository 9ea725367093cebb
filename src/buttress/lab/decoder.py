"""A tiny decoder that is fast on one CPU core and is at the same time a transformers model.

The weights are those of a transformers Llama or Qwen2 checkpoint; only the arrangement of the
computation differs. A prompt is computed once for its whole group, in sampling and in training:
the G completions of a prompt stand behind it in *one* row, and a mask lets each see the prompt and
itself only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from buttress.errors import UsageError


@dataclass(frozen=True, slots=True)
class Shape:
    """Size of a decoder; `width` splits evenly over `heads`."""

    vocabulary: int
    width: int = 96
    layers: int = 2
    heads: int = 4
    inner: int = 256
    kv_heads: int | None = None  # None for as many as heads
    rope_theta: float = 10_000.0
    eps: float = 1e-6
    qkv_bias: bool = False

    @property
    def head_width(self) -> int:
        """Channels per attention head."""
        return self.width // self.heads

    @property
    def key_width(self) -> int:
        """Channels of all keys, and of all values."""
        return (self.kv_heads or self.heads) * self.head_width


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the tokens of a row stand: first the prompt, then token t of all G completions.

    A row of a group is ``prompt[0..P), c_1[0] .. c_G[0], c_1[1] .. c_G[1], ...``.
    """

    turn: Tensor  # (token, 1, head_width / 2) rotary factor e^{i angle} of each token's place
    mask: Tensor  # (token, token) 0 where a token may look, -inf elsewhere

    @classmethod
    @cache
    def of(cls, shape: Shape, prompt: int, group: int, answer: int) -> Layout:
        """Return the layout of prompts of this length with `group` completions behind each."""
        index = torch.arange(group * answer)
        position = torch.cat([torch.arange(prompt), prompt + index // group])
        owner = torch.cat([torch.full((prompt,), -1), index % group])
        earlier = position[None, :] <= position[:, None]
        same = (owner[None, :] == owner[:, None]) | (owner[None, :] == -1)
        mask = torch.where(earlier & same, 0.0, float("-inf"))
        pairs = torch.arange(0, shape.head_width, 2) / shape.head_width
        angle = position[:, None, None] * shape.rope_theta**-pairs
        return cls(torch.polar(torch.ones_like(angle), angle), mask)


class Layer(nn.Module):
    """One pre-norm transformer layer with fused projections."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.norm1 = nn.Parameter(torch.ones(shape.width))
        self.norm2 = nn.Parameter(torch.ones(shape.width))
        self.qkv = nn.Linear(shape.width, shape.width + 2 * shape.key_width, bias=shape.qkv_bias)
        self.out = nn.Linear(shape.width, shape.width, bias=False)
        self.gate_up = nn.Linear(shape.width, 2 * shape.inner, bias=False)
        self.down = nn.Linear(shape.inner, shape.width, bias=False)

    def forward(
        self, x: Tensor, turn: Tensor, mask: Tensor, cache: Tensor | None, at: int
    ) -> Tensor:
        """Advance ``(row, token, width)``; keys and values go into `cache` from place `at` on."""
        rows, tokens, width = x.shape
        shape = self.shape
        qkv = self.qkv(functional.rms_norm(x, (width,), self.norm1, shape.eps))
        qk, v = qkv.split([width + shape.key_width, shape.key_width], dim=-1)
        # channels stand in pairs (see `_interleaved`), so that a rotation is one complex product
        qk = qk.float().reshape(rows, tokens, -1, shape.head_width // 2, 2)
        qk = torch.view_as_real(torch.view_as_complex(qk) * turn).flatten(3).transpose(1, 2)
        q, k = qk.to(v.dtype).tensor_split([shape.heads], dim=1)
        v = v.view(rows, tokens, -1, shape.head_width).transpose(1, 2)
        if cache is not None:
            end = at + tokens
            cache[0, :, :, at:end], cache[1, :, :, at:end] = k, v
            k, v = cache[0, :, :, :end], cache[1, :, :, :end]
        seen = functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask.to(q.dtype), enable_gqa=k.shape[1] != q.shape[1]
        )
        x = x + self.out(seen.transpose(1, 2).reshape(rows, tokens, width))
        h = self.gate_up(functional.rms_norm(x, (width,), self.norm2, shape.eps))
        gate, up = h.chunk(2, dim=-1)
        return x + self.down(functional.silu(gate) * up)


class Decoder(nn.Module):
    """The model: embedding, layers, final norm, and the embedding again as the output head."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        if shape.width % shape.heads or shape.head_width % 2:
            raise UsageError(f"width {shape.width} must split into {shape.heads} even heads")
        if shape.heads % (shape.kv_heads or shape.heads):
            raise UsageError(f"{shape.heads} heads must share {shape.kv_heads} KV heads evenly")
        self.shape = shape
        self.embed = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.Parameter(torch.ones(shape.width))
        nn.init.normal_(self.embed.weight, std=0.02)
        for module in self.layers.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(
        self,
        tokens: Tensor,
        layout: Layout,
        *,
        cache: list[Tensor] | None = None,
        at: int = 0,
    ) -> Tensor:
        """Return logits ``(row, token, vocabulary)`` of tokens that stand from place `at` on.

        Parameters
        ----------
        tokens
            ``(row, token)``, arranged as `layout` says.
        cache
            One tensor per layer from `new_cache`; None in training.
        """
        end = at + tokens.shape[1]
        turn, mask = layout.turn[at:end], layout.mask[at:end, :end]
        x = self.embed(tokens)
        for place, layer in enumerate(self.layers):
            x = layer(x, turn, mask, None if cache is None else cache[place], at)
        x = functional.rms_norm(x, (self.shape.width,), self.norm, self.shape.eps)
        return functional.linear(x, self.embed.weight)

    def new_cache(self, rows: int, places: int) -> list[Tensor]:
        """Return an empty cache for `places` tokens per row."""
        shape = self.shape
        size = (2, rows, shape.kv_heads or shape.heads, places, shape.head_width)
        kind = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
        return [self.norm.new_empty(size, dtype=kind) for _ in self.layers]


def load(path: str | Path) -> Decoder:
    """Read a transformers Llama or Qwen2 checkpoint directory with a tied output head."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(path, local_files_only=True)
    _shape_of(config, str(path))
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, local_files_only=True)
    return of_transformers(model)


def of_transformers(model: Any) -> Decoder:
    """Return a decoder with the weights of a transformers Llama or Qwen2 model."""
    decoder = Decoder(_shape_of(model.config, type(model).__name__))
    decoder.load_state_dict(_fused(model.state_dict(), decoder.shape))
    return decoder


def _shape_of(config: Any, what: str) -> Shape:
    if config.model_type not in ("llama", "qwen2"):
        raise UsageError(f"{what}: model_type {config.model_type!r}; expected llama or qwen2")
    if not config.tie_word_embeddings:
        raise UsageError(f"{what}: needs an output head that is tied to the embedding")
    theta = (getattr(config, "rope_parameters", None) or {}).get("rope_theta", 10_000.0)
    alike = config.num_key_value_heads == config.num_attention_heads
    return Shape(
        vocabulary=config.vocab_size,
        width=config.hidden_size,
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        inner=config.intermediate_size,
        kv_heads=None if alike else config.num_key_value_heads,
        rope_theta=float(theta),
        eps=config.rms_norm_eps,
        qkv_bias=config.model_type == "qwen2",
    )


def save(decoder: Decoder, path: str | Path, **special: Any) -> None:
    """Write a checkpoint directory that transformers loads; `special` are config entries."""
    from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config

    shape = decoder.shape
    config = (Qwen2Config if shape.qkv_bias else LlamaConfig)(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads or shape.heads,
        intermediate_size=shape.inner,
        rms_norm_eps=shape.eps,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta},
        tie_word_embeddings=True,
        **special,
    )
    model = AutoModelForCausalLM.from_config(config)
    model.load_state_dict(_split(decoder.state_dict(), shape), strict=False)
    model.save_pretrained(path)


def _fused(state: dict[str, Tensor], shape: Shape) -> dict[str, Tensor]:
    """From transformers' names to ours."""
    fused = {"embed.weight": state["model.embed_tokens.weight"], "norm": state["model.norm.weight"]}
    for i in range(shape.layers):
        theirs, ours = f"model.layers.{i}.", f"layers.{i}."
        kinds = ("weight", "bias") if shape.qkv_bias else ("weight",)
        for kind in kinds:
            q, k, v = (state[f"{theirs}self_attn.{name}_proj.{kind}"] for name in "qkv")
            q, k = _interleaved(q, shape), _interleaved(k, shape)
            fused[f"{ours}qkv.{kind}"] = torch.cat([q, k, v])
        gate_up = [state[f"{theirs}mlp.{name}_proj.weight"] for name in ("gate", "up")]
        fused[f"{ours}gate_up.weight"] = torch.cat(gate_up)
        fused[f"{ours}out.weight"] = state[f"{theirs}self_attn.o_proj.weight"]
        fused[f"{ours}down.weight"] = state[f"{theirs}mlp.down_proj.weight"]
        fused[f"{ours}norm1"] = state[f"{theirs}input_layernorm.weight"]
        fused[f"{ours}norm2"] = state[f"{theirs}post_attention_layernorm.weight"]
    return fused


def _split(state: dict[str, Tensor], shape: Shape) -> dict[str, Tensor]:
    """From our names to transformers'."""
    embed = state["embed.weight"]
    split = {
        "model.embed_tokens.weight": embed,
        "lm_head.weight": embed,
        "model.norm.weight": state["norm"],
    }
    for i in range(shape.layers):
        theirs, ours = f"model.layers.{i}.", f"layers.{i}."
        kinds = ("weight", "bias") if shape.qkv_bias else ("weight",)
        for kind in kinds:
            sizes = [shape.width, shape.key_width, shape.key_width]
            q, k, v = state[f"{ours}qkv.{kind}"].split(sizes)
            parts = (_halved(q, shape), _halved(k, shape), v)
            for name, part in zip("qkv", parts, strict=True):
                split[f"{theirs}self_attn.{name}_proj.{kind}"] = part
        gate, up = state[f"{ours}gate_up.weight"].chunk(2)
        split[f"{theirs}mlp.gate_proj.weight"], split[f"{theirs}mlp.up_proj.weight"] = gate, up
        split[f"{theirs}self_attn.o_proj.weight"] = state[f"{ours}out.weight"]
        split[f"{theirs}mlp.down_proj.weight"] = state[f"{ours}down.weight"]
        split[f"{theirs}input_layernorm.weight"] = state[f"{ours}norm1"]
        split[f"{theirs}post_attention_layernorm.weight"] = state[f"{ours}norm2"]
    return split


def _interleaved(weight: Tensor, shape: Shape) -> Tensor:
    """Reorder the channels of each head from (first halves, second halves) to pairs."""
    return weight.unflatten(0, (-1, 2, shape.head_width // 2)).transpose(1, 2).flatten(0, 2)


def _halved(weight: Tensor, shape: Shape) -> Tensor:
    """Undo `_interleaved`."""
    return weight.unflatten(0, (-1, shape.head_width // 2, 2)).transpose(1, 2).flatten(0, 2)
