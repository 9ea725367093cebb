"""Groups as plain lists."""

import numpy as np


def as_lists(groups):
    """The rewards of each group, None where unscorable."""
    cuts = np.split(groups.rewards, groups.offsets[1:-1]) if len(groups) else []
    return [[None if np.isnan(r) else r for r in part.tolist()] for part in cuts]
