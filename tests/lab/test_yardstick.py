"""`buttress bench diagnosis`: scores, tools and the command."""

import json
import sys
from pathlib import Path

import pytest

from buttress.cli import main
from buttress.lab.yardstick import ask_rldoctor, ask_rlprobe, ask_rlvr_audit, tools
from buttress.lab.yardstick.bench import run_bench
from buttress.lab.yardstick.corpus import Recipe, make
from buttress.lab.yardstick.kinds import COLLAPSE, KINDS, RIGHT, WRONG
from buttress.lab.yardstick.scores import Answer, Heard, score, spurious
from buttress.lab.yardstick.tools import Tool

BY_NAME = {kind.name: kind for kind in KINDS}


def answer(kind: str, *heard: Heard | str, recording: str = "learns") -> Answer:
    said = tuple(Heard(one, (one,)) if isinstance(one, str) else one for one in heard)
    return Answer(Recipe(0, BY_NAME[kind], recording, "generic"), said)


@pytest.fixture(scope="module")
def bench():
    return run_bench(40)


class TestButtress:
    def test_names_the_causes_and_alarms_nobody(self, bench):
        found = bench.as_dict()["tools"]["buttress"]
        assert found["macro_f1"] >= 0.95
        assert found["false_alarms"] == 0
        assert spurious(bench.answers["buttress"]) == {}

    def test_both_halves_are_counted(self, bench):
        halves = [bench.half(half) for half in ("development", "held out")]
        assert sum(half["runs"] for half in halves) == 40
        assert all(half["tools"]["buttress"]["macro_f1"] >= 0.9 for half in halves)

    def test_the_same_runs_get_the_same_scores(self, bench):
        again = run_bench(3).answers["buttress"]
        assert again == bench.answers["buttress"][:3]


class TestScores:
    def test_by_hand(self):
        found = score(
            [
                answer("rate_zero", "update-lost"),
                answer("frozen"),
                answer("time_outs", "unscorable-rewards", "update-lost"),
                answer("plain", "update-lost", "partial-log"),
            ]
        )
        lost = found["per_cause"]["update-lost"]
        assert (lost["precision"], lost["recall"], lost["runs"]) == (1 / 3, 1 / 2, 2)
        assert lost["f1"] == pytest.approx(2 / 5)
        assert found["per_cause"]["unscorable-rewards"]["f1"] == 1
        assert found["macro_f1"] == pytest.approx((2 / 5 + 1) / 2)
        assert found["false_alarms"] == 2

    def test_a_silent_tool(self):
        found = score([answer("frozen"), answer("plain")])
        assert found["macro_f1"] == 0
        assert found["per_cause"]["update-lost"]["precision"] is None

    def test_what_can_mean_the_cause_means_it(self):
        vague = Heard("TIED", (RIGHT, COLLAPSE, WRONG))
        assert answer("too_hard", vague).named == {COLLAPSE, WRONG}
        assert answer("frozen", vague).named == {RIGHT}

    def test_what_is_true_besides_counts_neither_way(self):
        assert answer("too_hard", "verifier-suspect", "early-forecast").named == set()
        found = answer("plain", RIGHT, recording="masters")
        assert found.named == set()
        assert found.false_alarms == 0

    def test_an_info_counts_where_it_is_right_alone(self):
        info = Heard("info", ("update-lost",), alarm=False)
        assert answer("frozen", info).named == {"update-lost"}
        assert answer("plain", info).named == set()
        assert answer("plain", info).false_alarms == 0

    def test_other_rules_are_spurious(self):
        assert spurious([answer("frozen", "partial-log")]) == {"partial-log": 1}


class TestAdapters:
    def test_rldoctor(self, tmp_path):
        call = ask_rldoctor.prepare(make(Recipe(0, BY_NAME["kl_only"], "pulled", "trl")), tmp_path)
        lines = Path(call[1]).read_text().splitlines()
        assert json.loads(lines[0])["frac_reward_zero_std"] == 1
        assert json.loads(lines[0])["kl"] > 0
        findings = [
            {"detector": "advantage_collapse", "severity": "CRITICAL",
             "metrics": {"regime": "too_hard"}},
            {"detector": "plateau", "severity": "INFO", "metrics": {}},
            {"detector": "entropy_collapse", "severity": "OK", "metrics": {}},
        ]  # fmt: skip
        tied, plateau = ask_rldoctor.hear(json.dumps({"findings": findings}))
        assert tied.causes[:2] == (WRONG, COLLAPSE)
        assert (plateau.causes, plateau.alarm) == ((), False)

    def test_rlprobe(self, tmp_path):
        import polars as pl

        draft = make(Recipe(0, BY_NAME["time_outs"], "learns", "trl"))
        place = Path(ask_rlprobe.prepare(draft, tmp_path)[1])
        rows = pl.read_parquet(place / "steps.parquet")
        assert len(rows) == len(draft.logged_steps)
        assert rows["nan_count"].sum() > 0
        assert rows["reward_mean"].null_count() == 0
        said = [{"signature_id": "DEGENERATE_GROUPS", "severity": "warn"}]
        assert COLLAPSE in ask_rlprobe.hear(json.dumps(said))[0].causes

    @pytest.mark.parametrize("kind", ["plain", "shuffled_ids", "single_ids", "time_outs", "copies"])
    def test_rlvr_audit_gets_whole_groups_of_numbers(self, kind, tmp_path):
        draft = make(Recipe(0, BY_NAME[kind], "trl_slow", "generic"))
        call = ask_rlvr_audit.prepare(draft, tmp_path)
        size = int(call[-1])
        records = [json.loads(line) for line in Path(call[2]).read_text().splitlines()]
        assert records
        for one in records:
            assert len(one["rewards"]) % size == 0
            assert len(one["rewards"]) == len(one["prompt_hashes"])
            assert len(one["rewards"]) == len(one["trajectory_hashes"])
            assert all(0 <= reward <= 1 for reward in one["rewards"])

    def test_rlvr_audit_speaks_for_most_prompts(self):
        report = {
            "n_prompts": 10,
            "verdict_histogram": {"STARVED": 8, "HEALTHY": 2},
            "advantage_collapse": {"frac_zero_variance_groups": 0.4},
            "T5_group_integrity_rate": 0.0,
        }
        assert [one.said for one in ask_rlvr_audit.hear(json.dumps(report))] == ["STARVED"]
        assert ask_rlvr_audit.hear('{"error": "no records found"}') == []


class TestTools:
    def test_an_installed_command_is_called_again_and_again(self, monkeypatch):
        class Version:
            COMMAND = "buttress"

            @staticmethod
            def hear(out: str) -> list[Heard]:
                return [Heard(out.strip(), ())]

        monkeypatch.setitem(tools.ADAPTERS, "rlprobe", Version)
        tool = Tool("rlprobe", Path(sys.executable))
        from buttress import __version__

        said = list(tool.hear_all([["--version"], ["--version"]]))
        assert [one[0].said for one in said] == [__version__] * 2
        assert tool.faults == 0

    def test_a_call_that_fails_is_silence_and_is_counted(self):
        tool = Tool("rlprobe", Path(sys.executable))  # this environment has no such command
        assert list(tool.hear_all([["doctor"], ["doctor"]])) == [(), ()]
        assert tool.faults == 2

    def test_what_is_not_installed_is_left_out_and_said_so(self, tmp_path):
        said: list[str] = []
        assert set(run_bench(1, out=tmp_path, say=said.append).answers) == {"buttress"}
        assert [one.partition(":")[0] for one in said] == ["rldoctor", "rlvr-audit", "rlprobe"]

    def test_what_cannot_be_installed_is_left_out_and_said_so(self, tmp_path, monkeypatch):
        class Missing:
            PACKAGE = COMMAND = "./no-such-package"

        monkeypatch.setitem(tools.ADAPTERS, "rlprobe", Missing)
        said: list[str] = []
        assert tools.find("rlprobe", tmp_path, install=True, say=said.append) is None
        assert "could not be installed" in said[-1]
        assert tools.find("rlprobe", tmp_path, install=False, say=said.append) is None


class TestCommand:
    def call(self, *arguments: str) -> int:
        with pytest.raises(SystemExit) as ended:
            main(["bench", "diagnosis", *arguments])
        return ended.value.code

    def test_json(self, capsys):
        assert self.call("--runs", "2", "--json") == 0
        found = json.loads(capsys.readouterr().out)
        assert found.keys() == {"runs", "tools"}
        assert found["runs"] == 2
        assert found["tools"].keys() == {"buttress"}
        assert found["tools"]["buttress"].keys() == {"macro_f1", "false_alarms", "per_cause"}

    def test_files_are_evidence_like_that_of_the_experiments(self, tmp_path, capsys):
        from buttress.lab.experiments.evidence import evidence_index

        assert self.call("--runs", "2", "--out", str(tmp_path)) == 0
        assert "macro-F1" in capsys.readouterr().out
        (entry,) = evidence_index(tmp_path)
        assert entry["seeds"] == 2
        assert "| buttress | 1.000 |" in (tmp_path / "diagnosis.md").read_text()
        written = json.loads((tmp_path / "diagnosis.json").read_text())
        assert len(written["rows"]) == 2
        assert written["halves"].keys() == {"development", "held out"}

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["--tools", "nothing"], "unknown tool 'nothing'"),
            (["--tools", "rlprobe"], "--tools needs --out"),
            (["--runs", "0"], "--runs must be 1 or more"),
        ],
    )
    def test_wrong_usage(self, arguments, says, capsys):
        assert self.call(*arguments) == 2
        assert says in capsys.readouterr().err
