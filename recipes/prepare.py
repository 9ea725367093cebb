"""Write problems as the other trainers read them.

python recipes/prepare.py verl level3-500.jsonl level3-500.parquet
python recipes/prepare.py swift level3-500.jsonl level3-500-swift.jsonl
"""

import json
import sys
from pathlib import Path
from typing import Any

import polars as pl

from buttress.logs.prose import text_of
from buttress.train.problems.data import load_problems

SYSTEM = "Please reason step by step, and put your final answer within \\boxed{}."
# verl chooses its grader by this name: this one compares what is boxed
GRADED_AS = "lighteval/MATH"


def for_verl(rows: list[dict[str, Any]], path: Path) -> None:
    """Parquet with the columns that verl's data sets have."""
    table = [
        {
            "data_source": GRADED_AS,
            "prompt": messages(row),
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": str(row["answer"])},
            "extra_info": {"index": at},
        }
        for at, row in enumerate(rows)
    ]
    pl.DataFrame(table).write_parquet(path)


def for_swift(rows: list[dict[str, Any]], path: Path) -> None:
    """JSONL with messages, and the solution for ms-swift's reward ``accuracy``."""
    lines = [{"messages": messages(row), "solution": str(row["answer"])} for row in rows]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def messages(row: dict[str, Any]) -> list[dict[str, str]]:
    """The problem under the system message."""
    return [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": text_of(row["prompt"]) or ""},
    ]


if __name__ == "__main__":
    kinds = {"verl": for_verl, "swift": for_swift}
    if len(sys.argv) != 4 or sys.argv[1] not in kinds:
        sys.exit(__doc__)
    kinds[sys.argv[1]](list(load_problems(sys.argv[2]).rows), Path(sys.argv[3]))
