"""Tasks made by a procedure: any number of problems, each with one answer that is checked exactly.

A task is written in single characters, so that a model of 0.2 million parameters can learn it in
minutes on one CPU core. It stands for the situation, not for the subject matter: `LatentSkill` is a
model that is able to do the right thing and hardly ever does, which is where groups collapse.
`GymTask` brings the tasks of reasoning-gym to models that read words.
"""

from types import MappingProxyType

from buttress.lab.tasks.arithmetic import Addition, Modular, Multiplication, Parity
from buttress.lab.tasks.base import Demonstration, Problem, Split, Task, is_held_out
from buttress.lab.tasks.gym import GymTask
from buttress.lab.tasks.latent_skill import LatentSkill
from buttress.lab.tasks.maze import Maze
from buttress.lab.tasks.tokens import encode, make_tokenizer, vocabulary

TASKS: MappingProxyType[str, type[Task]] = MappingProxyType(
    {one.name: one for one in (LatentSkill, Addition, Multiplication, Modular, Parity, Maze)}
)

__all__ = [
    "TASKS",
    "Addition",
    "Demonstration",
    "GymTask",
    "LatentSkill",
    "Maze",
    "Modular",
    "Multiplication",
    "Parity",
    "Problem",
    "Split",
    "Task",
    "encode",
    "is_held_out",
    "make_tokenizer",
    "vocabulary",
]
