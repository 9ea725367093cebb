"""The benchmarks that reports of reasoning models name: where each is, and how it is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

BOXED = "{prompt}\nReason step by step and write the final answer as \\boxed{answer}."
LETTER = "{prompt}\nReason step by step and end with a line: Answer: LETTER"


@dataclass(frozen=True)
class Benchmark:
    """One benchmark.

    Attributes
    ----------
    path, subset, split, prompt, answer, choices
        As `data.load_problems` takes them.
    problems
        How many it has.
    template
        How a problem is put where the user says nothing.
    verifier, options
        How an answer is judged where the user says nothing.
    lighteval
        Name of the task in lighteval, None where it has none.
    """

    path: str
    problems: int
    prompt: str
    answer: str
    split: str = "test"
    subset: str | None = None
    choices: str | None = None
    template: str = BOXED
    verifier: str = "math"
    options: dict[str, Any] = field(default_factory=dict)
    lighteval: str | None = None


BENCHMARKS = {
    "math-500": Benchmark("HuggingFaceH4/MATH-500", 500, "problem", "answer", lighteval="math_500"),
    "gsm8k": Benchmark(
        "openai/gsm8k", 1319, "question", "answer", subset="main", lighteval="gsm8k"
    ),
    "minerva": Benchmark("math-ai/minervamath", 272, "question", "answer"),
    "olympiadbench": Benchmark(
        "Hothan/OlympiadBench",
        674,
        "question",
        "final_answer",
        subset="OE_TO_maths_en_COMP",
        split="train",
        lighteval="olympiad_bench:OE_TO_maths_en_COMP",
    ),
    "amc": Benchmark("AI-MO/aimo-validation-amc", 83, "problem", "answer", split="train"),
    "aime24": Benchmark(
        "HuggingFaceH4/aime_2024", 30, "problem", "answer", split="train", lighteval="aime24"
    ),
    "mmlu-pro": Benchmark(
        "TIGER-Lab/MMLU-Pro",
        12032,
        "question",
        "answer",
        choices="options",
        template=LETTER,
        verifier="exact",
        options={"pattern": r"(?i:answer)\W{0,12}([A-J])\b"},
        lighteval="mmlu_pro",
    ),
}
