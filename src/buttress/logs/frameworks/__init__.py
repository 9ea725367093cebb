"""One reader per framework: its files as it writes them, to rollouts and metrics."""
