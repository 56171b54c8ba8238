"""What was asked of a session on the command line, and what a file already says."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.bench.records import Declared, Series
    from dlcontainer.cli.benchoptions import Chosen

FEWEST = 8
_BLOCK = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Asking:
    """What has a default that depends: None is what was not asked for."""

    looks: tuple[int, ...] | None
    controls: int | None
    seed: int | None
    module: str | None
    steps: int | None
    threads: int | None

    def filled(self, declared: "Declared") -> "Asking":
        """Take from a session's declaration what was not asked for."""
        work = declared.workload
        module, threads = work.get("module"), work.get("threads")
        settled = declared.steps if not work.get("steady_s") else None
        return Asking(
            looks=self.looks or declared.looks,
            controls=declared.control_pairs if self.controls is None else self.controls,
            seed=declared.seed if self.seed is None else self.seed,
            module=self.module or (str(module) if module else None),
            steps=self.steps or settled,
            threads=self.threads or (threads if isinstance(threads, int) else None),
        )


def asked(chosen: "Chosen") -> "tuple[Asking, Series | None]":
    """Give what was asked for, and the session that is to go on; its file fills what was not."""
    from dlcontainer.bench import cut

    found = Asking(
        looks=looks(chosen.pairs, chosen.looks),
        controls=chosen.controls,
        seed=chosen.seed,
        module=chosen.module,
        steps=chosen.steps,
        threads=chosen.threads,
    )
    if chosen.resume is None:
        return found, None
    begun = cut.read(chosen.resume.absolute())
    return found.filled(begun.session.declared), begun


def looks(pairs: int | None, text: str | None) -> tuple[int, ...] | None:
    """Read the looks; None where neither they nor the pairs were given. Raises UsageError."""
    if text is None:
        return None if pairs is None else (pairs,)
    words = [word.strip() for word in text.split(",")]
    found = [int(word) for word in words if word.isdecimal() and len(word) < 7]
    if len(found) < len(words) or not found:
        raise UsageError(f"--looks {text}: numbers of pairs, e.g. 8,16,32")
    if found[0] < FEWEST or sorted(set(found)) != found or any(n % _BLOCK for n in found):
        raise UsageError(
            f"--looks {text}: growing multiples of {_BLOCK}, the first at least {FEWEST}",
            next_step="orders are balanced in blocks of four pairs, and a verdict takes 8: 8,16,32",
        )
    if pairs is not None and pairs != found[-1]:
        raise UsageError(f"--pairs {pairs} and --looks {text}: give one of them")
    return tuple(found)
