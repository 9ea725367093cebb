"""Write the small stores of trackers in this folder, with the trackers themselves.

Needs wandb 0.31, mlflow-skinny 3.17 (with sqlalchemy and alembic), trackio 0.43, pyarrow and
zstandard. The tests do not: the stores are kept, databases compressed, since most of them is empty.

Two runs, ``healthy`` and ``dead`` (the newer one), of 12 steps each, log what `rows` gives.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

os.environ |= {
    "WANDB_MODE": "offline",
    "WANDB_SILENT": "true",
    "WANDB_ERROR_REPORTING": "false",
    "MLFLOW_ALLOW_FILE_STORE": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "HF_HUB_OFFLINE": "1",
}
HERE = Path(__file__).parent
OUT = HERE / "trackers"
STEPS = 12
NAMES = ("healthy", "dead")


def rows(name: str) -> list[dict[str, float]]:
    """Return what TRL logs at each step, from exact fractions; one reward is not a number."""
    dead = name == "dead"
    return [
        {
            "loss": 0.0 if dead else 0.01 * step,
            "grad_norm": 0.0 if dead else 0.1 + step / 64,
            "learning_rate": 1e-6,
            "reward": 0.0 if dead else 0.25 + step / 64,
            "reward_std": 0.0 if dead else 0.25,
            "frac_reward_zero_std": 1.0 if dead else (step % 3) / 8,
            "rewards/accuracy/mean": float("nan") if step == 5 else 0.25,
            "completions/mean_length": 100.0 + step,
            "completions/clipped_ratio": 0.0,
        }
        for step in range(1, STEPS + 1)
    ]


def prefixed(row: dict[str, float], step: int) -> dict[str, float]:
    """Return a row as Hugging Face's callbacks hand it to W&B and Trackio."""
    return {f"train/{name}": value for name, value in row.items()} | {"train/global_step": step}


def wandb_runs(folder: Path) -> None:
    """Write two offline runs; ``dead`` in two parts, the second resumed one step early."""
    import wandb

    settings = wandb.Settings(
        console="off", x_disable_stats=True, x_disable_meta=True, x_disable_machine_info=True,
        disable_git=True, disable_code=True, host="host", save_code=False,
    )  # fmt: skip
    for name, parts in (("healthy", [(0, 12)]), ("dead", [(0, 8), (7, 12)])):
        for start, stop in parts:
            run = wandb.init(
                project="demo", name=name, id=f"{name}01", dir=str(folder), settings=settings,
                resume="allow", config={"num_generations": 8},
            )  # fmt: skip
            for step, row in list(enumerate(rows(name), 1))[start:stop]:
                run.log({"profiling/Time taken: reward": 0.5})
                run.log(prefixed(row, step))
            if stop == STEPS:
                run.log({"text": "no number", "shape": {"a": 1.5, "b": {"c": 2}}, "flag": True,
                         "far": float("inf"), "unknown": None,
                         "lengths": wandb.Histogram([1.0, 2.0, 3.0])})  # fmt: skip
            run.finish()
            wandb.teardown()
            time.sleep(1.1)  # the folder's name has a second in it
    files = sorted(
        folder.glob("wandb/offline-run-*/*.wandb"), key=lambda path: path.stat().st_mtime
    )
    for at, path in enumerate(files, 1):
        target = OUT / "wandb" / f"offline-run-20261201_00000{at}-{path.stem[4:]}"
        target.mkdir(parents=True)
        shutil.copy(path, target)


def mlflow_runs(uri: str) -> None:
    """Write two runs, the first value of ``loss`` twice, and an infinite metric."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.create_experiment("demo", artifact_location="artifacts")
    for name in NAMES:
        run = client.create_run(experiment, run_name=name).info.run_id
        client.log_param(run, "num_generations", 8)
        client.log_metric(run, "loss", 99.0, step=1)
        for step, row in enumerate(rows(name), 1):
            for key, value in row.items():
                client.log_metric(run, key, value, step=step)
        client.log_metric(run, "far", float("inf"), step=1)
        client.set_terminated(run)


def trackio_runs(folder: Path) -> None:
    """Write two runs of one project, and the Parquet files that Trackio exports."""
    os.environ["TRACKIO_DIR"] = str(folder)
    import trackio
    from trackio.sqlite_storage import SQLiteStorage

    for name in NAMES:
        trackio.init(project="demo", name=name, embed=False, config={"num_generations": 8})
        trackio.log({"profiling/Time taken: reward": 0.5, "note": "no number"})
        for step, row in enumerate(rows(name), 1):
            trackio.log(prefixed(row, step))
        trackio.log({"far": float("inf"), "shape": {"a": 1.5}, "train/global_step": STEPS})
        trackio.finish()
    SQLiteStorage.export_for_static_space("demo", folder / "tables")
    shutil.copy(folder / "tables" / "metrics.parquet", OUT / "trackio.parquet")


def packed(path: Path, target: Path) -> None:
    """Keep a database compressed."""
    import zstandard

    target.write_bytes(zstandard.ZstdCompressor(19).compress(path.read_bytes()))


def main() -> None:
    """Write everything anew."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    (OUT / "logged.json").write_text(json.dumps({name: rows(name) for name in NAMES}))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        wandb_runs(folder)
        mlflow_runs(f"sqlite:///{folder}/mlflow.db")
        packed(folder / "mlflow.db", OUT / "mlflow.db.zst")
        os.chdir(folder)
        mlflow_runs("mlruns")
        shutil.copytree(folder / "mlruns", OUT / "mlruns")
        trackio_runs(folder / "trackio")
        packed(folder / "trackio" / "demo.db", OUT / "trackio.db.zst")
    for path in OUT.rglob("meta.yaml"):
        path.write_text(path.read_text().replace(f"{folder}/", ""))


if __name__ == "__main__":
    sys.exit(main())
