"""The words of a report, explained in the page itself: it is read where no guide is at hand."""

from dlcontainer.bench.report.table import Table

ANCHOR = "words"
_WORDS = (
    ("EQUIVALENT", "The whole interval of the ratio lies within the margin."),
    (
        "SLOWER, FASTER",
        "The interval lies beyond the margin, or on one side of 1 and is no wider than the margin.",
    ),
    ("INCONCLUSIVE", "Neither could be shown. That is not the same as no difference."),
    ("NOT COMPARABLE", "The sides differ in more than was asked about, or the machine drifted."),
    ("ratio", "Time on the candidate's side over time on the reference's; 1.03 is 3 % slower."),
    (
        "margin",
        "The difference declared, before measuring, as too small to matter; 2 % is 1/1.02 to 1.02.",
    ),
    (
        "interval",
        "The ratios that the data allow; a 95 % interval misses the truth in one session of 20.",
    ),
    ("pair", "Two fresh launches, one of each side, back to back in random order."),
    (
        "group",
        "Processes of both sides, alive at once, in turns on the same cores; it counts once.",
    ),
    ("sd", "How much the ratio of one pair, triple or group scatters."),
    ("A/A, B/B", "A side measured against itself: what this machine makes of no difference."),
    ("running second", "By how much the later launch of a pair is slower, whichever side it is."),
    ("carry-over", "What a launch of one side changes in the launch that follows it."),
    ("row", "One setting of a probe that measures many; it is shown, and not judged."),
    ("look", "A number of pairs, declared beforehand, at which a verdict may be read."),
    ("tail", "A few launches far from the others that decide the mean."),
    ("warm, cold", "Whether the files were in this node's memory before the launch."),
    ("first rank, joiner", "The rank that mounts the image on a node, and one that shares it."),
    ("seal", "The hash of a file's last line, which changes with any line before it."),
)


def table() -> Table:
    """Return the words of a report with their meanings."""
    return Table(
        name="What the words mean",
        head=("word", "meaning"),
        rows=_WORDS,
        note="The guide docs/measure/reading-a-report.md explains every figure.",
    )
