"""How a problem is put to a model: a template around it, a system message, the chat template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from buttress.errors import UsageError
from buttress.logs.prose import text_of


@dataclass(frozen=True)
class Asking:
    """How problems are put.

    Parameters
    ----------
    template
        Text around the problem, with ``{prompt}`` in it.
    system
        Text of the system message; without messages it stands above the problem.
    chat
        Ask in messages, through the tokenizer's chat template; by default where it has one.
    """

    template: str = "{prompt}"
    system: str | None = None
    chat: bool | None = None

    def __post_init__(self) -> None:
        if "{prompt}" not in self.template:
            raise UsageError(
                f"the template needs {{prompt}} where the problem goes; got {self.template!r}"
            )

    def prompt(self, row: Mapping[str, Any], tokenizer: Any) -> Any:
        """Return what a row asks: messages for a chat model, else text.

        A data set that holds messages is asked as it stands, under the system message.
        """
        asked = row["prompt"]
        chat = self.chat
        if chat is None:
            chat = getattr(tokenizer, "chat_template", None) is not None
        system = [{"role": "system", "content": self.system}] if self.system else []
        if chat and isinstance(asked, list):
            return [*system, *asked]
        text = self.template.replace("{prompt}", text_of(asked) or "")
        if chat:
            return [*system, {"role": "user", "content": text}]
        return f"{self.system}\n{text}" if self.system else text

    def text(self, prompt: Any, tokenizer: Any) -> str:
        """Return a prompt as the model reads it.

        Raises `UsageError` where messages meet a tokenizer without a chat template.
        """
        if isinstance(prompt, str):
            return prompt
        if getattr(tokenizer, "chat_template", None) is None:
            raise UsageError(
                "the tokenizer has no chat template; take an instruction-tuned model or --no-chat"
            )
        try:
            return tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
        except Exception as fault:
            raise UsageError(f"the chat template refuses the messages: {fault}") from fault
