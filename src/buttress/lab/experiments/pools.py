"""Where the runs of an experiment are computed: processes of this machine, or a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self

from buttress.errors import MissingExtraError, UsageError

LOCAL = "local"


class Pool(AbstractContextManager["Pool"], Protocol):
    """What a sweep needs of a pool; `concurrent.futures.Executor` has it."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Compute ``function(*arguments)`` somewhere else."""
        ...


def pool(workers: int | None, ray: str | None) -> Pool:
    """Return a pool: of `workers` processes (one per core), or of the Ray cluster at an address."""
    if ray is None:
        return ProcessPoolExecutor(workers or os.cpu_count())
    return RayPool(ray, workers)


class RayPool:
    """Computes on a Ray cluster, one core per run; the package must be installed on its nodes.

    Parameters
    ----------
    address
        ``auto`` for the cluster that this machine belongs to, ``host:port`` or ``ray://host:port``
        for another one, ``local`` to start one here for as long as the sweep lasts.
    workers
        With ``local``, its cores; by default all of them.
    """

    def __init__(self, address: str, workers: int | None = None) -> None:
        try:
            import ray
        except ImportError:
            raise MissingExtraError.of("a sweep on Ray", "ray") from None
        self._ray, self._own = ray, not ray.is_initialized()
        if not self._own:
            return
        if workers is not None and address != LOCAL:
            raise UsageError("--workers is for this machine; a Ray cluster knows its own cores")
        try:
            ray.init(
                address=address,
                num_cpus=workers,
                include_dashboard=False if address == LOCAL else None,
                log_to_driver=False,
                configure_logging=False,
            )
        except (ConnectionError, ValueError) as fault:
            raise UsageError(
                f"no Ray cluster at {address!r} ({fault}); start one with `ray start --head`, or "
                "give --ray local"
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._own:
            self._ray.shutdown()

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Run the function on some node."""
        return self._ray.remote(num_cpus=1)(function).remote(*arguments).future()
