"""Settings from TOML and flags: every fault is named with its place and the nearest name."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buttress.errors import InputError, UsageError
from buttress.train.changes import differences
from buttress.train.config import Training, load
from buttress.train.source import Source, lines_of

BASE = 'model = "m"\nout = "o"\nreward = "math"\ndata = "d.jsonl"\n'


def read(tmp_path, text):
    path = tmp_path / "run.toml"
    path.write_text(text)
    return load(Source.read(path))


def test_short_forms_are_written_out(tmp_path):
    config = read(tmp_path, BASE + 'remedy = "avspo"\nsampling = "greso"\n')
    assert config.data.path == "d.jsonl"
    assert [one.use for one in config.reward] == ["math"]
    assert (config.remedy.name, config.remedy.options) == ("avspo", {})
    assert config.sampling.name == "greso"
    assert config.loss is None
    assert config.rows == 64


def test_tables_carry_options(tmp_path):
    config = read(
        tmp_path,
        BASE.replace('data = "d.jsonl"\n', "").replace('reward = "math"\n', "")
        + '[data]\npath = "d"\nprompt = "q"\n[remedy]\nname = "avspo"\nalpha = 0.7\n'
        + '[[reward]]\nuse = "exact"\nweight = 2\n[[reward]]\nuse = "mod:fn"\n'
        + "[trainer]\nlearning_rate = 1e-6\n",
    )
    assert config.data.prompt == "q"
    assert config.remedy.make().alpha == 0.7
    assert [(one.use, one.weight) for one in config.reward] == [("exact", 2), ("mod:fn", 1)]
    assert config.trainer == {"learning_rate": 1e-6}


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('modle = "x"\n', 1, "unknown setting 'modle'. Did you mean 'model'"),
        (BASE + "steps = 'three'\n", 5, "steps: expected `int`, got `str`"),
        (BASE + "\n# none\nsteps = 0\n", 7, "steps must be 1 or more; got 0"),
        (BASE + 'remedy = "avsop"\n', 5, "unknown remedy 'avsop'. Did you mean 'avspo'"),
        (BASE + 'remedy = "greso"\n', 5, 'a way of sampling: set sampling = "greso"'),
        (BASE + '[remedy]\nname = "avspo"\nalfa = 1\n', 7, "Did you mean 'alpha'"),
        (BASE + '[remedy]\nname = "avspo"\nalpha = "x"\n', 7, "alpha must be a number"),
        (BASE + "[remedy]\nalpha = 1\n", 5, "a table with a name"),
        (BASE + '[loss]\nname = "dapo"\nclip_high = -1\n', 7, "clip_high must be"),
        (BASE + 'loss = "grpo"\n', 5, "unknown loss 'grpo'"),
        (BASE + 'remedy = "dapo"\nloss = "sapo"\n', 5, "is a loss already"),
        (BASE.replace("math", "mth"), 3, "unknown reward 'mth'. Did you mean 'math'"),
        (BASE + "group_size = 1\n", 5, "group_size must be 2 or more"),
        (BASE + "steps = 3\nsteps = 4\n", 6, "no TOML"),
        (BASE + 'train_only = ["("]\n', 5, "no regular expression"),
    ],
)
def test_a_fault_names_file_line_and_the_nearest_name(tmp_path, text, line, said):
    with pytest.raises((UsageError, InputError)) as fault:
        read(tmp_path, text)
    assert str(fault.value).startswith(f"{tmp_path / 'run.toml'}:{line}: ")
    assert said in str(fault.value)


def test_a_fault_in_an_array_of_tables_names_its_line(tmp_path):
    text = BASE.replace('reward = "math"\n', "")
    text += '[[reward]]\nuse = "math"\n\n[[reward]]\nuse = "exact"\nwieght = 1\n'
    with pytest.raises(UsageError, match=r"run\.toml:9: .*Did you mean 'weight'"):
        read(tmp_path, text)


@pytest.mark.parametrize("name", ["model", "data", "reward", "out"])
def test_what_is_missing_is_named(tmp_path, name):
    lines = [line for line in BASE.splitlines() if not line.startswith(name)]
    with pytest.raises(UsageError, match=f"set {name}, in the file or by --{name}"):
        read(tmp_path, "\n".join(lines))


def test_no_file_and_no_text(tmp_path):
    with pytest.raises(InputError, match="cannot read the settings"):
        Source.read(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        Source.read(tmp_path / "bytes.toml")


def test_flags_overrule_the_file_and_are_named_in_faults(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(BASE + '[remedy]\nname = "avspo"\nalpha = 0.7\n')
    source = Source.read(path)
    source.set(("remedy",), "posterior", "--remedy")
    source.assign("trainer.learning_rate=1e-5")
    source.assign("data.limit=3")
    source.assign("remedy.decay=0.5")
    with pytest.raises(UsageError, match=r"^--set remedy\.decay: unknown option of posterior"):
        load(source)
    source.set(("remedy",), "posterior", "--remedy")
    config = load(source)
    assert config.remedy.options == {}
    assert config.trainer == {"learning_rate": 1e-5}
    assert (config.data.path, config.data.limit) == ("d.jsonl", 3)
    with pytest.raises(UsageError, match="KEY=VALUE"):
        source.assign("steps")


def test_a_record_survives_json_and_names_what_changed(tmp_path):
    config = read(tmp_path, BASE + 'remedy = "avspo"\n')
    record = json.loads(json.dumps(config.record()))
    assert differences(record, config.record()) == []
    other = read(
        tmp_path, BASE + '[remedy]\nname = "avspo"\nalpha = 0.7\n[trainer]\nsave_steps = 9\n'
    )
    assert differences(record, other.record()) == ["remedy.options.alpha: unset then, 0.7 now"]


KEYS = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)


@given(st.dictionaries(KEYS, st.dictionaries(KEYS, st.integers(), max_size=4), max_size=4))
def test_lines_of_tables_are_where_they_stand(tables):
    lines = []
    wanted = {}
    for name, table in tables.items():
        lines.append(f"[{name}]")
        wanted[(name,)] = len(lines)
        for key, value in table.items():
            lines += ["", f"{key} = {value}"]
            wanted[(name, key)] = len(lines)
    assert lines_of("\n".join(lines)) == wanted


def test_lines_inside_a_text_of_several_lines_are_none():
    text = 'a = """\nb = 1\n[c]\n"""\nd = 2\n'
    assert lines_of(text) == {("a",): 1, ("d",): 5}


def test_every_setting_is_documented():
    doc = Training.__doc__
    assert [name for name in Training.__struct_fields__ if name not in doc] == []
