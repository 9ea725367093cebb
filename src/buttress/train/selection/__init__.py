"""Which problems are worth training on? Levels by sampled success rate."""
