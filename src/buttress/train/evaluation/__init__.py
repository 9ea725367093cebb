"""How good is a model? Accuracy and pass@k with intervals, paired comparison."""
