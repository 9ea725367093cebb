"""A batch of rollouts: ragged groups of rewards with columns beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress.errors import UsageError
from buttress.groups import build
from buttress.groups.arrays import as_float64, object_array, reward_array, take, to_numpy


@dataclass(frozen=True, eq=False, repr=False)
class Groups:
    """Rollouts, group after group; the unit that GRPO compares.

    Build it with `from_nested`, `from_flat` or `from_dense`. Groups may have any size. A reward
    that is null, NaN or infinite is *unscorable*: kept in its place, left out of every statistic.

    Attributes
    ----------
    values
        Rewards of shape ``(sample,)``, as given (NumPy or torch, any float dtype).
    offsets
        Shape ``(group + 1,)``; group g owns the samples ``offsets[g]:offsets[g + 1]``.
    order
        Shape ``(sample,)``; the row of the input that each sample came from.
    step
        Training step of each group, shape ``(group,)``.
    group_id
        Identity of each group, shape ``(group,)``.
    prompt
        Code of each group's prompt, shape ``(group,)``; -1 where the prompt is unknown.
    prompt_labels
        The prompt identities that the codes stand for.
    columns
        Further columns, each of shape ``(sample,)``: ``correct``, ``advantage``, ``length``,
        ``truncated``, ``reward/<name>``, and ``prompt`` (codes) where rows name their prompts.

    Numbers may be given as lists, NumPy arrays, torch tensors or columns of a data frame. Every
    constructor takes ``prompt=`` with the text of each rollout's prompt; without ``prompt_id=`` the
    text is the identity, beside one it is kept as the column ``prompt_text``. Wrong shapes and
    texts among numbers raise `UsageError`.
    """

    values: Any
    offsets: NDArray[np.int64]
    order: NDArray[np.int64]
    step: NDArray[np.int64]
    group_id: NDArray[Any]
    prompt: NDArray[np.int64]
    prompt_labels: NDArray[Any]
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @staticmethod
    def checked(value: Any) -> Groups:
        """Return groups as they are; anything else raises `UsageError`."""
        if isinstance(value, Groups):
            return value
        raise UsageError(
            f"this needs Groups, as Groups.from_nested, from_flat or from_dense make them; got "
            f"{type(value).__name__}"
        )

    @classmethod
    def from_nested(
        cls, rewards: Any, *, prompt_id: Any = None, step: Any = 0, **columns: Any
    ) -> Groups:
        """Build groups from a list of lists of rewards.

        Parameters
        ----------
        rewards
            One list per group, of any lengths; ``None`` is unscorable.
        prompt_id
            One prompt identity per group.
        step
            Training step: one number, or one per group.
        columns
            Nested (or flat) lists of the same shape: ``correct=``, ``length=``, ...

        Examples
        --------
        >>> Groups.from_nested([[1, 0, 0], [0, 0]])
        Groups(2 groups, 5 samples, sizes 2-3)
        """
        return cls(**build.nested(rewards, prompt_id=prompt_id, step=step, columns=columns))

    @classmethod
    def from_flat(
        cls, rewards: Any, group_ids: Any, *, prompt_id: Any = None, step: Any = 0, **columns: Any
    ) -> Groups:
        """Build groups from rows in any order; groups stand in the order of first appearance.

        Parameters
        ----------
        rewards
            Shape ``(row,)``: a list, a NumPy array or a torch tensor.
        group_ids
            Shape ``(row,)``: any hashable or numeric identity.
        prompt_id
            One identity per group in order of first appearance, or one per row.
        step
            One number, one per group, or one per row. Rows of one id at different steps are
            different groups.
        columns
            Per-row columns: ``correct=``, ``length=``, ...

        Examples
        --------
        >>> Groups.from_flat([1, 0, 1, 1], ["a", "b", "a", "b"]).offsets.tolist()
        [0, 2, 4]
        """
        parts = build.flat(rewards, group_ids, prompt_id=prompt_id, step=step, columns=columns)
        return cls(**parts)

    @classmethod
    def from_dense(
        cls, rewards: Any, *, prompt_id: Any = None, step: Any = 0, **columns: Any
    ) -> Groups:
        """Build groups from an array of shape ``(group, sample)``; columns have that shape too.

        Examples
        --------
        >>> Groups.from_dense(np.zeros((3, 8)))
        Groups(3 groups, 24 samples, sizes 8-8)
        """
        return cls(**build.dense(rewards, prompt_id=prompt_id, step=step, columns=columns))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        sizes = f"{self.sizes.min()}-{self.sizes.max()}" if len(self) else "none"
        return f"Groups({len(self)} groups, {self.n_samples} samples, sizes {sizes})"

    @property
    def n_samples(self) -> int:
        """Number of rollouts, unscorable ones included."""
        return int(self.offsets[-1])

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Rollouts per group, unscorable ones included; shape ``(group,)``."""
        return np.diff(self.offsets)

    @cached_property
    def rewards(self) -> NDArray[np.float64]:
        """Rewards in float64 on the CPU, shape ``(sample,)``; NaN where unscorable."""
        rewards = as_float64(self.values)
        finite = np.isfinite(rewards)
        return rewards if finite.all() else np.where(finite, rewards, np.nan)

    @cached_property
    def memo(self) -> dict[Any, Any]:
        """What was derived from these groups once, for all who ask again."""
        return {}

    @cached_property
    def group_of(self) -> NDArray[np.int64]:
        """Index of the group of each sample, shape ``(sample,)``."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @property
    def prompt_id(self) -> NDArray[Any]:
        """Prompt identity of each group, shape ``(group,)``; ``None`` where unknown."""
        return object_array([*self.prompt_labels, None])[self.prompt]

    @property
    def has_prompts(self) -> bool:
        """Whether any group knows its prompt."""
        return bool((self.prompt >= 0).any())

    def column(self, name: str) -> NDArray[np.float64] | None:
        """Return a numeric column as float64 with NaN for unknown, or None where absent.

        ``reward`` is the reward itself.
        """
        if name == "reward":
            return self.rewards
        values = self.columns.get(name)
        return None if values is None else as_float64(values, f"column {name!r}")

    def with_rewards(self, values: Any) -> Groups:
        """Return the same groups with other rewards, in the order of the samples."""
        values = reward_array(values)
        if tuple(values.shape) != (self.n_samples,):
            raise UsageError(
                f"with_rewards needs {self.n_samples} values, one per sample; "
                f"got shape {tuple(values.shape)}"
            )
        return replace(self, values=values)

    def select(self, keep: Any) -> Groups:
        """Return the groups that a mask or an index array of shape ``(group,)`` names.

        `prompt_labels` stay as they are, so that codes mean the same in every part of a run.
        """
        index = self._index(to_numpy(keep))
        samples = build.sample_index(self.offsets, index)
        sizes = self.sizes[index]
        return Groups(
            values=take(self.values, samples),
            offsets=build.offsets_of(sizes),
            order=self.order[samples],
            step=self.step[index],
            group_id=self.group_id[index],
            prompt=self.prompt[index],
            prompt_labels=self.prompt_labels,
            columns={name: values[samples] for name, values in self.columns.items()},
        )

    def _index(self, keep: NDArray[Any]) -> NDArray[Any]:
        if keep.dtype == bool:
            if keep.shape != (len(self),):
                raise UsageError(
                    f"select needs a mask of {len(self)} groups; got shape {keep.shape}"
                )
            return np.flatnonzero(keep)
        index = keep.astype(np.int64) if not keep.size else keep
        if index.ndim != 1 or index.dtype.kind not in "iu":
            raise UsageError(
                "select needs a mask or a list of group numbers; "
                f"got {keep.dtype} of shape {keep.shape}"
            )
        if len(index) and not (-len(self) <= index.min() and index.max() < len(self)):
            raise UsageError(
                f"select names group {index[(index >= len(self)) | (index < -len(self))][0]}; "
                f"there are {len(self)}"
            )
        return index
