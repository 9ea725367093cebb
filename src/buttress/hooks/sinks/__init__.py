"""Where a monitor's numbers can go, each in a thread of its own; see `Outbox` for what that means.

::

    bt.Monitor(sinks=[JsonLines("run/buttress.jsonl"), Prometheus(port=9400)])

A sink is any object with ``write(row)`` and ``close()``, or a function ``f(step, metrics)``. Names
are those of `Monitor.metrics`; numbers that are unknown are left out, or null in JSON.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from buttress.errors import MissingExtraError, UsageError
from buttress.hooks.sinks.outbox import Row, Sink
from buttress.remedies import options

TRACKERS = "trackers"  # the extra


class JsonLines:
    """One line per step: ``{"step": 3, "metrics": {...}, "events": [...]}``.

    A line is written whole and appended, so that a killed run leaves no half line but the last. A
    run that resumes from a checkpoint writes the steps after it again: the later line stands.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.open("ab").close()
            self._torn = not _ends_well(self.path)  # a run was killed while it wrote
        except OSError as fault:
            raise UsageError(f"cannot write to {self.path}: {fault}") from None

    def write(self, row: Row) -> None:
        """Append a line."""
        metrics = {
            name: value if math.isfinite(value) else None for name, value in row.metrics.items()
        }
        line = {"step": row.step, "metrics": metrics, "events": list(row.events)}
        text = "\n" * self._torn + json.dumps(line, default=str) + "\n"
        data = text.encode()
        place = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            written = os.write(place, data)
        finally:
            os.close(place)
        self._torn = written < len(data)
        if self._torn:
            raise OSError(f"only {written} of {len(data)} bytes fitted into {self.path}")

    def close(self) -> None:
        """Do nothing: no file is kept open."""


class Call:
    """A function ``f(step, metrics)``."""

    def __init__(self, function: Callable[[int, dict[str, float]], Any]) -> None:
        self.function = function

    def write(self, row: Row) -> None:
        """Call it."""
        self.function(row.step, dict(row.metrics))

    def close(self) -> None:
        """Do nothing."""


class TensorBoard:
    """Event files under `folder`, beside those of the trainer if that is its folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        writer = _needed("tensorboard.summary.writer.event_file_writer", "TensorBoard")
        self._event = _needed("tensorboard.compat.proto.event_pb2", "TensorBoard").Event
        self._summary = _needed("tensorboard.compat.proto.summary_pb2", "TensorBoard").Summary
        self._writer = writer.EventFileWriter(os.fspath(folder), filename_suffix=".buttress")

    def write(self, row: Row) -> None:
        """Add one scalar per number."""
        values = [
            self._summary.Value(tag=name, simple_value=value)
            for name, value in known(row.metrics).items()
        ]
        self._writer.add_event(
            self._event(step=row.step, wall_time=time.time(), summary=self._summary(value=values))
        )
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()


class WandB:
    """The Weights & Biases run that is going on, or `run`; with an axis ``buttress/step``."""

    def __init__(self, run: Any = None) -> None:
        wandb = _needed("wandb", "W&B")
        self._run = wandb.run if run is None else run
        if self._run is None:
            raise UsageError("there is no W&B run: call wandb.init() first, or pass run=")
        self._run.define_metric("buttress/step", hidden=True)
        self._run.define_metric("buttress/*", step_metric="buttress/step")

    def write(self, row: Row) -> None:
        """Log a row under the axis of its own, so that the trainer's steps stay its own."""
        self._run.log({**known(row.metrics), "buttress/step": row.step})

    def close(self) -> None:
        """Leave the run to whoever began it."""


class MLflow:
    """The MLflow run that is going on, or `run_id`."""

    def __init__(self, run_id: str | None = None) -> None:
        self._mlflow = _needed("mlflow", "MLflow")
        active = self._mlflow.active_run()
        if run_id is None and active is None:
            raise UsageError("there is no MLflow run: call mlflow.start_run() first, or run_id=")
        self._run_id = run_id or active.info.run_id
        self._client = self._mlflow.MlflowClient()

    def write(self, row: Row) -> None:
        """Log one batch of metrics."""
        now = int(time.time() * 1000)
        metric = self._mlflow.entities.Metric
        metrics = [
            metric(re.sub(r"[^\w\-./ :]", "_", name), value, now, row.step)
            for name, value in known(row.metrics).items()
        ]
        self._client.log_batch(self._run_id, metrics=metrics)

    def close(self) -> None:
        """Leave the run to whoever began it."""


class Trackio:
    """The Trackio run that is going on, or `run`."""

    def __init__(self, run: Any = None) -> None:
        trackio = _needed("trackio", "Trackio")
        self._run = trackio.context_vars.current_run.get() if run is None else run
        if self._run is None:
            raise UsageError("there is no Trackio run: call trackio.init() first, or pass run=")

    def write(self, row: Row) -> None:
        """Log a row; Trackio's own step is a counter, ours stands beside it."""
        self._run.log({**known(row.metrics), "buttress/step": row.step})

    def close(self) -> None:
        """Leave the run to whoever began it."""


class Prometheus:
    """The latest numbers for Prometheus: by HTTP on 127.0.0.1, or as a file for node_exporter.

    ``buttress/acr/reward/format`` becomes ``buttress_acr_reward_format``; ``buttress_step`` is the
    step. HTTP is never offered on another address.

    Parameters
    ----------
    port
        0 takes a free one; it is then in `port`.
    textfile
        A file whose name ends in ``.prom``, replaced as a whole at each step.
    """

    def __init__(
        self, port: int | None = None, textfile: str | os.PathLike[str] | None = None
    ) -> None:
        if (port is None) == (textfile is None):
            raise UsageError("Prometheus needs either port= or textfile=")
        self._client = _needed("prometheus_client", "Prometheus")
        self._registry = self._client.CollectorRegistry()
        self._gauges: dict[str, Any] = {}
        self._file = None if textfile is None else os.fspath(textfile)
        self._server, self.port = None, port
        if port is not None:
            options.whole("port", port, 0, 65535)
            self._serve(port)
        elif not str(self._file).endswith(".prom"):
            raise UsageError(f"the node exporter reads *.prom files only; got {self._file}")

    def write(self, row: Row) -> None:
        """Set the gauges; one that is unknown now is NaN, as Prometheus has it."""
        for name, value in {**row.metrics, "buttress/step": float(row.step)}.items():
            clean = re.sub(r"\W", "_", name)
            if clean not in self._gauges:
                self._gauges[clean] = self._client.Gauge(clean, name, registry=self._registry)
            self._gauges[clean].set(value)
        if self._file is not None:
            self._client.write_to_textfile(self._file, self._registry)

    def close(self) -> None:
        """Stop the server."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _serve(self, port: int) -> None:
        try:
            self._server, _ = self._client.start_http_server(
                port, addr="127.0.0.1", registry=self._registry
            )
        except OSError as fault:
            raise UsageError(f"port {port} of 127.0.0.1 cannot be used: {fault}") from None
        self.port = self._server.server_port


def read_sinks(sinks: Any) -> list[Sink]:
    """Return sinks, functions wrapped; anything else raises `UsageError`."""
    given = list(sinks) if isinstance(sinks, list | tuple) else [sinks]
    found = []
    for one in given:
        if all(callable(getattr(one, name, None)) for name in ("write", "close")):
            found.append(one)
        elif callable(one) and not isinstance(one, type):
            found.append(Call(one))
        else:
            raise UsageError(
                "a sink is an object with write(row) and close(), or a function f(step, metrics); "
                f"got {one!r}"
            )
    return found


def known(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the numbers that are known.

    Examples
    --------
    >>> known({"a": 1.0, "b": float("nan")})
    {'a': 1.0}
    """
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def _ends_well(path: Path) -> bool:
    """Return whether a file is empty or ends with its last line."""
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _needed(module: str, feature: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtraError.of(f"the sink for {feature}", TRACKERS) from None
