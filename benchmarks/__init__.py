"""Speed, as ratios measured side by side in one run. See ``python -m benchmarks --help``."""
