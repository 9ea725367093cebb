"""Every line that a rule draws, in one place, with its source.

"Ours" marks a line that no paper draws; it was chosen for the reason given and may be argued with.
"""

# arXiv 2605.21125 (earlier version, corollary 3.3): ACR above 0.35 for more than 50 consecutive
# steps means that training stalls.
ACR_STALLED = 0.35
STALLED_STEPS = 50

# Ours: above this the run is dead whatever its length; four of five rollouts teach nothing.
ACR_DEAD = 0.8

# Ours: a kind dominates when it holds this share of the tied groups.
DOMINANT_KIND = 0.6

# Ours: two short steps are a pattern, one is the torn end of a file.
FILTER_SHORT_STEPS = 2
# Ours: a log in which no group ties is suspect when chance explains it less often than this.
FILTER_CHANCE = 1e-6
