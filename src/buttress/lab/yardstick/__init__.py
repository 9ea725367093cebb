"""The yardstick: a corpus of runs with known causes, and how well tools name them."""
