"""Every reader recognises its own files and no other one's."""

from __future__ import annotations

from pathlib import Path

import pytest

import buttress as bt
from buttress.errors import InputError
from buttress.logs import files
from buttress.logs.reader import readers
from tests.logs import dumps, frameworks
from tests.logs.writing import rollouts, verl_row, write

DATA = Path(__file__).parent / "data"


def plain(folder: Path) -> Path:
    write(folder / "a.jsonl", rollouts({"a": [0, 1]}))
    return folder


def legacy(folder: Path) -> Path:
    write(folder / "1.jsonl", [verl_row("p", "c", 1)] * 2)
    return folder


LOGS = {
    "prime-rl": lambda folder: DATA / "prime_rl",
    "verifiers": lambda folder: DATA / "verifiers_eval",
    "verifiers results": dumps.results,
    "nemo-rl": dumps.nemo,
    "areal": dumps.areal,
    "skyrl": dumps.skyrl,
    "inspect_ai": lambda folder: DATA / "inspect_ai",
    "inspect_ai chunked": lambda folder: DATA / "inspect_chunked",
    "verl": lambda folder: DATA / "verl_v1",
    "verl legacy": legacy,
    "trl": lambda folder: DATA / "trl_plain" / "completions",
    "generic": plain,
    **{
        name: lambda folder, name=name: frameworks.write_all(folder)[name]
        for name in ("ms-swift", "open-instruct", "roll", "tinker", "rllm")
    },
}
LEFT_OUT = {"metadata.json"}


@pytest.mark.parametrize("log", LOGS)
def test_each_file_has_one_reader_of_its_own(tmp_path, log):
    """Ask every reader, not the first that would take it; generic ones come last and may agree."""
    name = log.split()[0]
    asked = 0
    for path in files.expand(LOGS[log](tmp_path)):
        if path.name in LEFT_OUT:
            continue
        head, asked = files.head(path), asked + 1
        suffix = files.plain_suffix(path)
        found = [one.name for one in readers() if suffix in one.suffixes and one.sniff(path, head)]
        # verifiers reads the episodes that prime-rl's reader leaves to it
        fallback = {"generic", "verifiers"} if name == "prime-rl" else {"generic"}
        assert set(found) - fallback == {name} - fallback, path
        assert found[0] == name
    assert asked


@pytest.mark.parametrize("log", LOGS)
def test_read_as_what_it_is(tmp_path, log):
    run = bt.read(LOGS[log](tmp_path))
    assert run.source.format == log.split()[0]
    assert run.groups.n_samples


@pytest.mark.parametrize("name", sorted({one.name for one in readers()}))
def test_a_format_is_no_other_one(tmp_path, name):
    """A file forced into a foreign format is refused or read with problems, never a traceback."""
    path = write(tmp_path / "a.jsonl", [{"my": at, "own": "x"} for at in range(4)])
    try:
        run = bt.read(path, format=name)
    except InputError:
        return
    assert run.problems
    assert run.groups.n_samples == 0


def test_the_help_lists_every_format():
    from buttress.cli import options

    listed = (options.Reading.__doc__ or "").partition("format\n")[2].partition("map\n")[0]
    words = {word.strip(".,;") for word in listed.split()}
    assert {one.name for one in readers()} <= words
