"""Every line that a rule draws, in one place, with its source.

"Ours" marks a line that no paper draws; it was chosen for the reason given and may be argued with.
"""

# arXiv 2605.21125 (earlier version, corollary 3.3): ACR above 0.35 for more than 50 consecutive
# steps means that training stalls.
ACR_STALLED = 0.35
STALLED_STEPS = 50
# Ours: above this the run is dead whatever its length; four of five rollouts teach nothing.
ACR_DEAD = 0.8
# Ours: the course of the ACR is smoothed over this many groups, since one step may hold only one
# group (then its ACR is 0 or 1).
SMOOTH_GROUPS = 64
# Ours: a collapse at the end of a run counts from this many groups on, and is an error from this
# many steps on.
LATE_GROUPS = 32
LATE_STEPS = 10
# Ours: a run fell when nearly all groups of its last steps are dead, enough for a late collapse,
# and the steps before were surely below the line, or nearly; an error from this many logged steps
# on, since one or two may be an outage. Not when at least this many groups at the end show prompts
# from before, and half of these prompts were never solved then either.
FALL_SLACK = 0.1
FALL_REVISITS = 8
FALLEN_STEPS = 3
# Ours: a kind dominates when it holds this share of the tied groups.
DOMINANT_KIND = 0.6
# Ours: a run has mastered its prompts when this share of the tied groups of its last third is all
# correct and the mean reward rose by RISE of the reward's range since the start (the first tenth).
MASTERED_KIND = 0.8
RISE = 0.1
START = 10
THIRDS = 6  # fewer steps than this have no start and end
# Ours: a cause explains the collapse when it accounts for this share of the tied groups.
EXPLAINS = 0.5

# Ours: a tied group is put down to the length cap when this share of its rollouts hit it
# (seven of eight).
TRUNCATED_GROUP = 0.8
# Ours: a logged clipped_ratio from which (nearly) every group of the step is truncated.
CLIPPED_STEP = 0.95
# Ours: truncated rollouts that succeed this often (or half as often as complete ones), or this
# often where all are truncated, show that the cap does not decide the reward.
TRUNCATED_SUCCESS = 0.2
TRUNCATED_ALONE = 0.01
# Ours: a cap is read off lengths only if it is at least this long, and if this many times more
# completions end there than in the last part below it.
CAP_SMALLEST = 64
CAP_PILE = 5
CAP_NEIGHBOURS = 0.02
# Ours: one complete rollout can mix a group of at most this size; chance mixes a few more.
CAP_GROUP = 16
CAP_SLACK = 0.05
# Ours: the share of all groups that must be lost to the cap before it is worth a finding, and the
# share of the tied ones.
TRUNCATION_LOSS = 0.1
TRUNCATION_SHARE = 0.25

# Ours: correctness is dead when it ties in this share of the groups; the same line as ACR_DEAD.
COMPONENT_DEAD = 0.8
# Ours: by how much the ACR of the total must lie below that of correctness to hide it.
COMPONENT_GAP = 0.2
# Ours: from this share on, groups that are tied on correctness and moved by shaping are named.
PHANTOM_SHARE = 0.1
# Ours: correctness is alive at all when it varies in this share of the groups.
ALIVE = 0.01
# Ours: partial credit reaches this share of the way from the lowest to the full reward; a bonus for
# format does not.
CREDIT_REACHES = 0.5
# Ours: a component is constant, and a tied level one and the same, in this share of cases.
CONSTANT = 0.95
SAME_LEVEL = 0.8

# Measured with trainers' own formulas in float32: unnormalised baselines leave 2e-7 in tied groups,
# normalised ones 2e-4 (eps 1e-4) to 238 (eps 1e-9). Ours: the line between them.
PHANTOM_NOISE = 1e-5
# Ours: a twentieth of a full-size advantage steers, a full-size one drowns the signal.
PHANTOM_STEERS = 0.05
PHANTOM_DROWNS = 1.0
# Ours: the share of a population of groups that must agree before a habit is called one.
AGREE = 0.9
# The common eps of normalising trainers (verl, slime, NeMo-RL, ROLL); TRL's 1e-4 gives less, and
# the 1e-9 of OpenRLHF 7 and more, beyond what estimators give to tied groups on purpose.
COMMON_EPS = 1e-6
LARGEST_MEANT = 3.0
# Ours: what an eps of 1e-9 takes off rounding noise that is divided by its own deviation.
ROUNDED_SLACK = 0.03
# Ours: rounding of one value depends on the kernel; there are not more than this many in one run.
KERNELS = 8
# Ours: one small shift of all tied groups of a step is whitening over the batch.
SHIFT_SMALL = 0.25
# Ours: relative precision to which a logged advantage must equal a flat-batch value.
FLAT_PRECISION = 5e-3
# Ours: only groups whose flat-batch value is at least this can tell flat from grouped.
FLAT_VISIBLE = 0.05
# Ours: a near-tied group is blown up when its advantages span this share of the usual span ...
BLOWN_UP = 0.5
# ... and by this factor more than its rewards do.
BLOW_UP_FACTOR = 10.0
# Ours: near-tied groups are worth a warning from this share of the groups on.
NEAR_TIED_SHARE = 0.05
# Ours: slack on the bound of a normalised advantage (rounding, a leave-one-out baseline).
BOUND_SLACK = 1.1
# Ours: slack where the log does not show a unit deviation, so that the estimator is unknown.
UNKNOWN_SLACK = 10.0
# Ours: groups are normalised when the deviation of their advantages is 1 to this precision in this
# share of them, under one and the same ddof.
UNIT_PRECISION = 0.01
UNIT_SHARE = 0.95

# Ours: below this share null rewards are a nuisance, above it they bend every rate.
UNSCORABLE_SHARE = 0.05
# Ours: two short steps are a pattern, one is the torn end of a file.
FILTER_SHORT_STEPS = 2
# Ours: a log in which no group ties is suspect when chance explains it less often than this.
FILTER_CHANCE = 1e-6
# Ours: missing groups point to a filter only where a log without a tie is odd in itself (a reward
# of many levels never ties); less so where the configuration says how many there should be.
FILTER_ODD = 0.5
FILTER_ODD_CONFIGURED = 0.99
# Ours: a filtered log must look like one: a zero-and-full-truncated beta-binomial may not be
# rejected at this level, on the evidence of at most FILTER_GROUPS groups (no model fits 100,000).
FILTER_FIT = 1e-3
FILTER_GROUPS = 1000
# Ours: group ids with more holes than this multiple of the groups are hashes, not a counter.
FILTER_HOLES = 4.0

# Ours: trainers round what they log; anything below is zero.
GRAD_ZERO = 1e-8
LOSS_ZERO = 1e-4
# Ours: the share of the logged steps that must show it, and the fewest steps that can.
OPTIMISER_SHARE = 0.9
OPTIMISER_STEPS = 3

# Ours: completions this long do not repeat by chance; shorter answers do.
LONG_TOKENS = 16
LONG_CHARACTERS = 64
# Ours: shares of the groups that hold one text only, for long and for short texts.
IDENTICAL_LONG = 0.1
IDENTICAL_SHORT = 0.5
# Ours: the share of long completions that repeat another of their group.
REPEATED_LONG = 0.25

# Ours: a larger group has stopped helping when the next doubling is expected to free fewer than
# FLOOR_GAIN of the groups while more than FLOOR_LEVEL stay tied.
FLOOR_GAIN = 0.05
FLOOR_LEVEL = 0.2
FLOOR_PROMPTS = 16
# The first steps are the 100 of ACR_100 (arXiv 2605.21125). Ours: a forecast needs this many.
EARLY_STEPS = 100
EARLY_LEAST = 10
# Ours: dynamic sampling is judged by the latest steps, at least so many and with so many groups,
# and by the chance that one of the next updates stalls.
RECENT_STEPS = 10
RECENT_GROUPS = 256
STALL_UPDATES = 10
STALL_SURE = 0.95
STALL_LIKELY = 0.5
STALL_POSSIBLE = 0.05
# Ours: lines of the counter of generation batches that make a trend, and the share of updates at
# the limit that is an error.
COUNTER_LINES = 50
COUNTER_LEAST = 10
COUNTER_REACHED = 0.1
# Ours: a verifier is suspect when this many prompts and rollouts never score once.
SUSPECT_PROMPTS = 32
SUSPECT_ROLLOUTS = 512
# Ours: equal completions of one prompt that got different verdicts, among those that could.
CONTRADICTION_SHARE = 0.02
RESOLVED = 0.01  # of the range of success; the default resolution
# Ours: prompts that were solved and are no longer (0.8 and 0.2 over eight rollouts each, drawn in
# `measures.mastery`) are worth a warning from so many on, and if shuffled visits look as bad less
# often than this.
LOST_CHANCE = 0.01
LOST_SHARE = 0.05
LOST_PROMPTS = 3

# Ours: below these shares, lost rollouts do not move a rate by more than its interval.
UNREADABLE_SHARE = 0.01
SHORT_SHARE = 0.1
# Ours: a size is the usual one when this share of the groups has it.
USUAL_SIZE = 0.6
# Ours: groups that stand in the log word for word more than once.
REPEATED_GROUPS = 0.1
REPEATED_TEXTS = 4  # different texts that a group needs before its repetition tells anything
VARIED_TEXTS = 0.05  # different texts per rollout that a run needs

# Ours: with so many near-tied groups most of what is learnt may be noise of the reward.
MOSTLY_NEAR_TIED = 0.5
