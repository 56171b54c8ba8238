"""What was asked of a session on the command line, and what a file already says."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from dlcontainer.cli.bench import session_options
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.bench.samples.records import Declared
    from dlcontainer.bench.samples.series import Series
    from dlcontainer.bench.samples.vocabulary import ArmName, NativeAs
    from dlcontainer.cli.bench.session_options import Chosen

FEWEST = 8
_BLOCK = 4
_TRIPLES = 6  # three arms have six sequences: triples come in blocks of them
FEWEST_TRIPLES = 12
DEFAULT_LOOKS = (8, 16, 32)
DEFAULT_TRIPLES = (12, 18, 36)


@dataclass(frozen=True, kw_only=True, slots=True)
class Asking:
    """What has a default that depends: None is what was not asked for."""

    arms: "tuple[ArmName, ...]"
    looks: tuple[int, ...] | None
    controls: int | None
    candidate_controls: int
    native_as: "NativeAs | None"
    seed: int | None
    module: str | None
    steps: int | None
    threads: int | None

    @property
    def has_container(self) -> bool:
        """Whether an image is mounted."""
        return not self.arms or "container" in self.arms

    def filled(self, declared: "Declared") -> "Asking":
        """Take from a session's declaration what was not asked for."""
        work = declared.workload
        module, threads = work.get("module"), work.get("threads")
        settled = declared.steps if not work.get("steady_s") else None
        return Asking(
            arms=self.arms or declared.arms,
            looks=self.looks or declared.looks,
            controls=declared.control_pairs if self.controls is None else self.controls,
            candidate_controls=self.candidate_controls or declared.candidate_control_pairs,
            native_as=self.native_as or cast("NativeAs | None", work.get("native_as")),
            seed=declared.seed if self.seed is None else self.seed,
            module=self.module or (str(module) if module else None),
            steps=self.steps or settled,
            threads=self.threads or (threads if isinstance(threads, int) else None),
        )


def asked(chosen: "Chosen") -> "tuple[Asking, Series | None]":
    """Give what was asked for, and the session that is to go on; its file fills what was not."""
    from dlcontainer.bench.samples import continuation

    begun = continuation.read(chosen.resume.absolute()) if chosen.resume else None
    arms = session_options.arms(chosen.arms) or (begun.session.declared.arms if begun else ())
    controls, candidate_controls = session_options.controls(chosen.controls)
    found = Asking(
        arms=arms,
        looks=looks(chosen.pairs, chosen.looks, triples=len(arms) == 3),
        controls=controls,
        candidate_controls=candidate_controls,
        native_as=chosen.native_as,
        seed=chosen.seed,
        module=chosen.module,
        steps=chosen.steps,
        threads=chosen.threads,
    )
    return found.filled(begun.session.declared) if begun else found, begun


def looks(pairs: int | None, text: str | None, *, triples: bool = False) -> tuple[int, ...] | None:
    """Read the looks; None where neither they nor the pairs were given. Raises UsageError."""
    block, fewest = (_TRIPLES, FEWEST_TRIPLES) if triples else (_BLOCK, FEWEST)
    if triples and pairs is not None and pairs % block:
        raise UsageError(
            f"--pairs {pairs}: of three arms a multiple of {block}",
            next_step=f"triples are balanced in blocks of six: --pairs {-(-pairs // block) * block}"
            f"; a verdict takes {fewest}",
        )
    if text is None:
        return None if pairs is None else (pairs,)
    words = [word.strip() for word in text.split(",")]
    found = [int(word) for word in words if word.isdecimal() and len(word) < 7]
    if len(found) < len(words) or not found:
        raise UsageError(f"--looks {text}: numbers of pairs, e.g. 8,16,32")
    if found[0] < fewest or sorted(set(found)) != found or any(n % block for n in found):
        unit, usual = ("triples", DEFAULT_TRIPLES) if triples else ("pairs", DEFAULT_LOOKS)
        raise UsageError(
            f"--looks {text}: growing multiples of {block}, the first at least {fewest}",
            next_step=f"orders are balanced in blocks of {block} {unit}, and a verdict takes "
            f"{fewest}: {','.join(map(str, usual))}",
        )
    if pairs is not None and pairs != found[-1]:
        raise UsageError(f"--pairs {pairs} and --looks {text}: give one of them")
    return tuple(found)
