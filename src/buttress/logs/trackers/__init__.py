"""Metrics that an experiment tracker keeps on disk, read without the tracker's package.

=============== ============================================ ==================================
``--format``    files                                        written by
=============== ============================================ ==================================
``wandb``       ``run-<id>.wandb``                           Weights & Biases, offline or online
``tensorboard`` ``*tfevents*``                               TensorBoard, torch, tensorboardX
``mlflow``      ``mlflow.db``, ``mlruns.db``; ``mlruns/``    MLflow
``trackio``     ``<project>.db``, ``<project>.parquet``      Trackio
``prime-rl``    ``metrics.jsonl``                            prime-rl
``ms-swift``    ``logging.jsonl``                            ms-swift
``tinker``      ``metrics.jsonl``                            tinker-cookbook
``verl``        ``<experiment>.jsonl``                       verl's ``file`` logger
=============== ============================================ ==================================

They end in the run's scalars, under their own names and, where TRL has one, under TRL's
(`buttress.logs.trackers.metric_names`). Of several runs in one store one is read: the one that
``--run`` names (by name or id), else the newest that has a trainer's metrics; the others are named
in ``problems``. A step that stands twice (a resumed run) counts as it was written last.
"""
