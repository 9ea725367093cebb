"""Does it work? Tasks, a shipped checkpoint, trainings on the CPU, the demo.

Nothing is imported here: torch costs seconds, and most rooms of the house do without it.
"""
