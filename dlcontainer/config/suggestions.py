"""The end of a message about a name that is not known: the nearest one, or all there are."""

from collections.abc import Iterable

MOST_LISTED = 20


def suggest(word: str, candidates: Iterable[str]) -> str:
    """Return `; did you mean 'x'?`, or `; known: a, b, c`, or nothing when nothing is known."""
    import difflib

    choices = sorted(set(candidates))
    if not choices:
        return ""
    by_folded = {name.casefold(): name for name in choices}
    near = difflib.get_close_matches(word.casefold(), by_folded, n=1, cutoff=0.6)
    if near:
        return f"; did you mean '{by_folded[near[0]]}'?"
    rest = f", … ({len(choices)} in all)" if len(choices) > MOST_LISTED else ""
    return f"; known: {', '.join(choices[:MOST_LISTED])}{rest}"


def cut(text: str, longest: int) -> str:
    """Shorten a text for a message, and say how long it was."""
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text)} characters)"
