"""Experiments by name: a question, the runs that answer it, a table, a figure, a conclusion."""

from types import MappingProxyType

from buttress.lab.experiments import probes, remedies, sweeps
from buttress.lab.experiments.design import Arm, Condition, Experiment
from buttress.lab.experiments.evidence import run_and_write

EXPERIMENTS: MappingProxyType[str, Experiment] = MappingProxyType(
    {
        one.name: one
        for one in (
            remedies.METHODS,
            remedies.POSTERIOR_AGAINST_ALL,
            remedies.FRESH_PROMPTS,
            remedies.VIRTUAL_SAMPLES,
            remedies.MECHANISM,
            remedies.THRESHOLD,
            remedies.FILTERING,
            remedies.ALPHA,
            remedies.ROBUSTNESS,
            sweeps.ACR_FORECAST,
            sweeps.TEMPERATURE,
            sweeps.GROUP_SIZE,
            sweeps.DIFFICULTY,
            sweeps.SCALE,
            sweeps.STABILITY,
            probes.OVERHEAD,
            probes.TAIL_MISS,
            remedies.PASS_AT_K,
            probes.NORMALISATION,
            remedies.MASTERY,
            remedies.CREDIT,
            remedies.CALIBRATION,
            remedies.SMOLLM2,
            remedies.ZERO_GRADIENT_STEP,
        )
    }
)

__all__ = ["EXPERIMENTS", "Arm", "Condition", "Experiment", "run_and_write"]
