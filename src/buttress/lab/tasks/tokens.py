"""One token a character: for the tiny decoder, and as a tokenizer of transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from buttress.errors import MissingExtraError
from buttress.lab.tasks.base import Task

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PAD, END, UNKNOWN = "<pad>", "<end>", "<unk>"


def vocabulary(task: Task) -> list[str]:
    """Return the tokens of a task in the order of their ids."""
    return [PAD, END, UNKNOWN, *task.symbols]


def encode(task: Task, texts: Sequence[str]) -> NDArray[np.int64]:
    """Return the token ids of texts of one length, ``(text, token)``."""
    ids = {symbol: place for place, symbol in enumerate(vocabulary(task))}
    return np.array([[ids[symbol] for symbol in text] for text in texts])


def make_tokenizer(task: Task) -> PreTrainedTokenizerFast:
    """Return a tokenizer of single characters, without spaces in what it decodes.

    Padding stands on the left, as generation needs it. An unknown character becomes ``<unk>``.
    """
    try:
        from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
        from transformers import PreTrainedTokenizerFast
    except ImportError:
        raise MissingExtraError.of("the laboratory", "trl") from None

    ids = {word: index for index, word in enumerate(vocabulary(task))}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
