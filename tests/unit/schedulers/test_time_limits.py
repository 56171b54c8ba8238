"""Time limits as each scheduler reads them, and as they are written in its words."""

import pytest

from dlcontainer.schedulers import SCHEDULERS, time_limits

M, H, D = 60, 3600, 86_400


@pytest.mark.parametrize(
    ("kind", "text", "seconds"),
    [
        ("slurm", "30", 30 * M),
        ("slurm", "30:00", 30 * M),
        ("slurm", "1:30", 90),
        ("slurm", "90:00", 90 * M),
        ("slurm", "1:30:00", 90 * M),
        ("slurm", "100:00:00", 100 * H),
        ("slurm", "1-12", D + 12 * H),
        ("slurm", "1-0:30", D + 30 * M),
        ("slurm", "2-00:00:01", 2 * D + 1),
        ("lsf", "30", 30 * M),
        ("lsf", "30:00", 30 * H),
        ("lsf", "3:30", 210 * M),
        ("lsf", "0:210", 210 * M),
        ("lsf", "1:30:00", 90 * M),
        ("pbs", "30", 30),
        ("pbs", "30:00", 30 * M),
        ("pbs", "1:30:00", 90 * M),
        ("gridengine", "1800", 30 * M),
        ("gridengine", "0:30:0", 30 * M),
        ("gridengine", "1::1", H + 1),
        ("gridengine", ":30:", 30 * M),
        ("cobalt", "30", 30 * M),
        ("cobalt", "01:10:20", 70 * M + 20),
        ("none", "30", 30 * M),
        ("none", "0:30:00", 30 * M),
    ],
)
def test_a_limit_is_read_as_its_scheduler_does(kind: str, text: str, seconds: int) -> None:
    assert SCHEDULERS[kind].read_time(text) == seconds


@pytest.mark.parametrize("kind", ["none", "gridengine", "cobalt"])
def test_what_may_be_two_is_refused_with_both(kind: str) -> None:
    says = (
        r"30:00 is 0:30:00 to Slurm and PBS, and 30:00:00 to LSF; .*: "
        "write 0:30:00 or 30:00:00"
    )
    with pytest.raises(ValueError, match=says):
        SCHEDULERS[kind].read_time("30:00")


@pytest.mark.parametrize("kind", SCHEDULERS)
@pytest.mark.parametrize(
    "text",
    ["", "abc", "-1", "1-", "1:2:3:4", "1:60:00", "1:00:60", "0", "0:00:00", "1.5", "1 ", "\u0663"],
)
def test_what_is_none_anywhere(kind: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"not a time|more than 59"):
        SCHEDULERS[kind].read_time(text)


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        ("lsf", "1-12", r"not a time limit of this scheduler, whose form is \[H:\]M"),
        ("pbs", "1-12:00:00", "not a time limit of this scheduler"),
        ("slurm", "1-24", "23 hours in a day"),
        ("slurm", "1:30:00:00", "D-H:M:S"),
        ("gridengine", "0100", "as octal"),
        (
            "gridengine",
            "0x10",
            "not a time limit of this scheduler, whose form is seconds, or H:M:S",
        ),
    ],
)
def test_what_another_one_reads(kind: str, text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        SCHEDULERS[kind].read_time(text)


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        ("slurm", "01:30:30"),
        ("lsf", "1:31"),
        ("pbs", "01:30:30"),
        ("gridengine", "01:30:30"),
        ("cobalt", "91"),
    ],
)
def test_how_a_limit_is_written(kind: str, written: str) -> None:
    batch = SCHEDULERS[kind]
    assert batch.time_limit(5430) == written
    # It reads its own words, of which none is shorter than what was asked for.
    assert batch.read_time(written) - 5430 in (0, 30)
    assert batch.read_time(batch.time_limit(100 * H)) == 100 * H
    assert time_limits.shown(5430) == "1:30:30"
