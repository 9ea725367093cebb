"""The command line as users and programs call it: exit codes, streams, JSON, the cases."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from buttress import __version__
from buttress.cli import main

DATA = Path(__file__).parent / "logs" / "data"


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as left:
        main([str(one) for one in arguments])
    return int(left.value.code or 0)


@pytest.fixture
def diagnose(tmp_path, capsys):
    """Write rows as JSONL, diagnose them, return the exit code and the report."""

    def diagnosed(rows, *options):
        path = tmp_path / "rollouts.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        code = run("diagnose", path, "--json", *options)
        return code, json.loads(capsys.readouterr().out)

    return diagnosed


def rows_of(groups, *, step=1, **columns):
    """One row per rollout of nested rewards; columns are nested alike."""
    return [
        {
            "step": step,
            "group": f"g{place}",
            "sample": sample,
            "prompt": f"prompt {place}",
            "reward": reward,
            **{name: values[place][sample] for name, values in columns.items()},
        }
        for place, rewards in enumerate(groups)
        for sample, reward in enumerate(rewards)
    ]


def rules(report):
    return [finding["rule"] for finding in report["findings"]]


def finding(report, rule):
    return next(one for one in report["findings"] if one["rule"] == rule)


def loud(report):
    return [one["rule"] for one in report["findings"] if one["severity"] != "info"]


def test_a1_batch_spread_is_not_group_spread(diagnose):
    groups = [[-7] * 4, [3] * 4]
    _, report = diagnose(rows_of(groups, **{"reward/task": groups}))
    assert report["measures"]["acr"] == 1.0
    assert report["measures"]["effective_batch"] == 0.0
    assert report["verdict"] == "collapsed"


def test_a2_loss_zero_is_not_collapse(tmp_path, capsys):
    history = [
        {
            "step": step,
            "loss": 0.0,
            "grad_norm": 0.08 + 0.0015 * step,
            "reward_std": 0.5 + 0.015 * step,
            "frac_reward_zero_std": 0.1 * (step % 2),
        }
        for step in range(1, 21)
    ]
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps({"log_history": history, "global_step": 20}))
    assert run("diagnose", path, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["verdict"] == "healthy"
    assert finding(report, "loss-zero-normal")["severity"] == "info"
    assert not loud(report)


def test_a3_truncation_kills_the_groups(diagnose):
    zeros, capped = [[0] * 8] * 8, [[True] * 8] * 8
    code, report = diagnose(rows_of(zeros, truncated=capped, length=[[512] * 8] * 8))
    assert code == 1
    assert rules(report)[0] == "truncation-collapse"
    first = finding(report, "truncation-collapse")
    assert "cap" in first["advice"][0]["action"].lower() or "length" in first["advice"][0]["action"]
    told = json.dumps(report["findings"]).lower()
    assert "easier" not in told
    assert "larger group" not in told


def test_a3_names_the_share_of_truncated_groups(diagnose):
    capped = [[place < 5] * 8 for place in range(8)]
    _, report = diagnose(rows_of([[0] * 8] * 8, truncated=capped))
    assert "5 of 8" in finding(report, "truncation-collapse")["message"]


@pytest.mark.parametrize("twins", [[0.1] * 16, [1, 1, 1, 0.99999994], [0.7] * 8, [2.1] * 8])
def test_a4_float_twins_are_tied(diagnose, twins):
    _, report = diagnose(rows_of([twins, [0, 1] * (len(twins) // 2)]))
    assert report["measures"]["acr"] == 0.5


def test_a5_impossible_advantages(diagnose):
    group = [[1, 0, 0, 0]]
    _, report = diagnose(rows_of(group, advantage=[[1e6, -1 / 3, -1 / 3, -1 / 3]]))
    assert report["measures"]["acr"] == 0.0
    found = finding(report, "impossible-advantage")
    assert "1.5" in json.dumps(found)


def test_a6_uneven_groups_and_flat_advantages(diagnose):
    groups = [[1, 0, 1, 0], [5, 5, 5], [2, 4, 2, 4]]
    _, report = diagnose(rows_of(groups))
    assert report["measures"]["acr"] == pytest.approx(1 / 3)
    flat = [value for group in groups for value in group]
    mean = sum(flat) / len(flat)
    sd = (sum((value - mean) ** 2 for value in flat) / len(flat)) ** 0.5
    whitened = [[(value - mean) / sd for value in group] for group in groups]
    _, report = diagnose(rows_of(groups, advantage=whitened))
    assert "broken-grouping" in rules(report)


def test_a7_every_group_a_singleton(diagnose):
    rows = [{"group": name, "prompt": "p", "reward": i % 2} for i, name in enumerate("abcd")]
    code, report = diagnose(rows)
    assert code == 1
    assert "broken-grouping" in rules(report)
    assert report["measures"]["acr"] is None
    assert report["verdict"] == "undefined"
    assert report["measures"]["groups"]["singleton"] == 4


def interleaved(**more):
    rows = [{"prompt": f"p{1 + i % 2}", "reward": 1 - i % 2, **more} for i in range(8)]
    for row in rows:
        if "group" in more:
            row["group"] = row["prompt"]
    return rows


def test_a8_interleaved_rows_with_a_key(diagnose):
    _, report = diagnose(interleaved(group=""))
    assert report["measures"]["acr"] == 1.0


def test_a8_interleaved_rows_by_position_are_refused(diagnose):
    _, report = diagnose(interleaved(), "--group-size", 4)
    assert report["measures"]["acr"] is None
    assert "broken-grouping" in rules(report)


def test_a9_null_rewards(diagnose):
    _, report = diagnose(rows_of([[None, -1, -1, None], [1, -1, 1, -1]]))
    assert report["measures"]["acr"] == 0.5
    assert report["measures"]["groups"]["all_wrong"] == 1
    assert report["measures"]["rollouts"]["unscorable"] == 2


def test_a9_all_null_is_unscorable(diagnose):
    _, report = diagnose(rows_of([[None] * 4] * 3))
    assert report["measures"]["groups"]["unscorable"] == 3
    assert report["measures"]["groups"]["all_wrong"] == 0
    assert report["measures"]["acr"] is None
    assert "unscorable-rewards" in rules(report)


def test_a10_dead_correctness_under_a_live_format_reward(diagnose):
    style = [[1, 0, 1, 1]] * 6
    total = [[0.1 * one for one in group] for group in style]
    dead = [[0] * 4] * 6
    _, report = diagnose(rows_of(total, correct=dead, **{"reward/format": style}))
    assert report["measures"]["acr"] == 0.0
    assert report["measures"]["acr_by_reward"]["correct"] == 1.0
    assert "component-collapse" in rules(report)


def test_a11_phantom_signal(diagnose):
    penalty = [[0, -0.2, -0.5, -1]] * 4
    rows = rows_of(penalty, correct=[[0] * 4] * 4, **{"reward/length": penalty})
    _, report = diagnose(rows)
    by_reward = report["measures"]["acr_by_reward"]
    assert by_reward["correct"] == 1.0
    assert by_reward["reward"] == 0.0
    advice = json.dumps(finding(report, "phantom-signal")["advice"]).lower()
    assert "correct" in advice


def test_a14_filtered_log(diagnose):
    rows = []
    for step, n_groups in enumerate([6, 4, 8, 5, 7, 3, 6, 8, 4, 5], start=1):
        rows += rows_of([[1, 0, 1, 0], [1, 0, 0, 0]] * (n_groups // 2), step=step)
    _, report = diagnose(rows)
    assert "filtered-log" in rules(report)
    assert report["measures"]["acr"] is None
    assert report["measures"]["acr_interval"] is None


@pytest.mark.parametrize(
    ("dump", "says"), [("trl_every_second", "one step in 2"), ("trl_rewritten", "more than once")]
)
def test_a15_dumps_that_lose_or_repeat(dump, says, capsys):
    run("diagnose", DATA / dump, "--json", "--fail-on", "never")
    report = json.loads(capsys.readouterr().out)
    found = finding(report, "partial-log")
    assert says in json.dumps(found)


def test_healthy_run_exits_with_zero(diagnose):
    groups = [[1, 0, 0, 1], [0, 0, 0, 1], [1, 1, 1, 0], [1, 1, 1, 1], [1, 0, 1, 0]]
    code, report = diagnose(rows_of(groups))
    assert code == 0
    assert report["verdict"] == "healthy"
    assert report["schema"] == 1
    assert report["version"] == __version__
    assert report["source"]["group_sizes"] == {"4": 5}


def test_fail_on_and_selection(diagnose):
    dead = rows_of([[0] * 4] * 8)
    assert diagnose(dead)[0] == 1
    assert diagnose(dead, "--fail-on", "never")[0] == 0
    code, report = diagnose(dead, "--ignore", "advantage-collapse,all-wrong-collapse")
    assert code == 0
    assert "advantage-collapse" not in rules(report)
    _, report = diagnose(dead, "--select", "BT101")
    assert rules(report) == ["advantage-collapse"]


def test_mapping_and_tolerance(diagnose):
    rows = [{"grp": i // 4, "score": 0.5 + 1e-3 * (i % 2)} for i in range(8)]
    _, report = diagnose(rows, "--map", "group=grp", "--map", "reward=score")
    assert report["measures"]["acr"] == 0.0
    _, report = diagnose(rows, "--map", "group=grp", "--map", "reward=score", "--tolerance", "0.01")
    assert report["measures"]["acr"] == 1.0
    assert report["tolerance"]["atol"] == 0.01


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["diagnose"], "PATH"),
        (["diagnose", "no/such/path"], "no/such/path"),
        (["diagnose", ".", "--fail-on", "sometimes"], "sometimes"),
        (["diagnose", "{data}", "--select", "advantage-colapse"], "advantage-collapse"),
        (["diagnose", "{data}", "--format", "trll"], "trl"),
        (["diagnose", "{data}", "--map", "reward"], "NAME=COLUMN"),
        (["explain", "no-such-rule"], "no-such-rule"),
        (["remedies", "avsop"], "avspo"),
        (["no-such-command"], "no-such-command"),
    ],
)
def test_bad_usage_exits_with_two(arguments, says, capsys):
    data = DATA / "verl_v1"
    assert run(*[one.replace("{data}", str(data)) for one in arguments]) == 2
    told = capsys.readouterr()
    assert says in told.err + told.out
    assert "Traceback" not in told.err


def test_compare_pairs_by_step(tmp_path, capsys):
    paths = []
    for name, share in (("a", 1), ("b", 3)):
        path = tmp_path / f"{name}.jsonl"
        rows = []
        for step in range(40):
            groups = [[0] * 4] * share + [[1, 0, 1, 0]] * (4 - share)
            rows += rows_of(groups, step=step)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        paths.append(path)
    assert run("compare", *paths, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    acr = next(row for row in report["rows"] if row["name"] == "acr")
    assert acr["difference"] == pytest.approx(0.5)
    assert acr["paired_steps"] == 40
    assert run("compare", *paths) == 0
    assert "the 40 common steps, paired by step" in capsys.readouterr().out


def test_compare_takes_all_its_numbers_from_the_common_steps(tmp_path, capsys):
    for name, steps in (("short", 20), ("long", 60)):
        rows = []
        for step in range(steps):
            dead = 3 if name == "short" or step >= 20 else 1
            rows += rows_of([[0] * 4] * dead + [[1, 0, 1, 0]] * (4 - dead), step=step)
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run("compare", tmp_path / "short", tmp_path / "long", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    acr = next(row for row in report["rows"] if row["name"] == "acr")
    assert (acr["first"], acr["second"]) == (0.75, 0.25)
    assert acr["difference"] == pytest.approx(acr["second"] - acr["first"])


def test_prompts_are_listed_and_written(tmp_path, capsys):
    path = tmp_path / "rollouts.jsonl"
    rows = rows_of([[0, 0], [1, 0], [1, 1]])
    rows += [{"step": 2, "group": "x", "prompt_id": "=1+1", "reward": one} for one in (0, 1)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run("prompts", path, "--json") == 0
    listed = json.loads(capsys.readouterr().out)["prompts"]
    by_state = {row["state"]: row["advice"] for row in listed}
    assert by_state["never solved"] == "hold"
    assert by_state["mastered"] == "drop"
    for suffix in ("csv", "jsonl", "parquet"):
        out = tmp_path / f"prompts.{suffix}"
        assert run("prompts", path, "--out", out) == 0
        assert out.stat().st_size
    assert "\n'=1+1," in (tmp_path / "prompts.csv").read_text()
    assert run("prompts", path, "--out", tmp_path / "prompts.txt") == 2


def test_explain_and_remedies(capsys):
    assert run("explain") == 0
    assert "advantage-collapse" in capsys.readouterr().out
    assert run("explain", "BT101") == 0
    assert "What it sees" in capsys.readouterr().out
    assert run("explain", "truncation") == 2
    assert "Did you mean 'truncation-collapse'?" in capsys.readouterr().err
    assert run("remedies", "posterior") == 0
    assert "\n- All wrong: `a = " in capsys.readouterr().out
    assert run("remedies", "avspo") == 0
    assert "2605.21125" in capsys.readouterr().out
    assert run("remedies", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert {"name", "paper", "kind", "options"} <= set(listed[0])
    assert "avspo" in [one["name"] for one in listed]


def test_json_is_alone_on_standard_output(tmp_path):
    path = tmp_path / "rollouts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows_of([[1, 0]] * 3)))
    done = subprocess.run(
        [sys.executable, "-m", "buttress", "diagnose", str(path), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["verdict"] == "healthy"
    assert "\x1b" not in done.stdout


def test_html_path_is_printed(tmp_path, capsys):
    path = tmp_path / "rollouts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows_of([[1, 0]] * 3)))
    page = tmp_path / "report.html"
    assert run("diagnose", path, "--html", page) == 0
    assert page.exists()
    assert str(page) in capsys.readouterr().out.replace("\n", "")
