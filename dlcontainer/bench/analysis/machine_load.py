"""How busy a machine was as a session began: in words, and whether others were at work. Pure."""

from dlcontainer.bench.samples.vocabulary import counted

# So many cores that are busy are somebody's work: a tenth of them, on large nodes half of one.
_SHARE, _MOST = 0.1, 0.5


def others_at_work(average: float, busy: float | None, cores: int) -> bool:
    """Return whether others were at work: by the cores that were busy just then, where it is known.

    Else by the load average of a minute, which holds what came before: an own session, a build.
    """
    if busy is None:
        return average > cores
    return busy > min(_SHARE * cores, _MOST)


def text(average: float, busy: float | None, cores: int) -> str:
    """Write the load beside the cores."""
    now = "" if busy is None else f", {busy:.1f} of them busy just then"
    return f"load {average:.1f} on {counted(cores, 'core')}{now}"
