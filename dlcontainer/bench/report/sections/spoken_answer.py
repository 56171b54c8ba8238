"""An answer that opens a report: a question, a reply, figures, and how sure it is."""

from dataclasses import dataclass
from typing import Literal

# Sure: sessions of several allocations together. Likely: what one session, or one file, shows.
# Empty: nothing was measured.
Sure = Literal["sure", "likely", "unsure", ""]


@dataclass(frozen=True, kw_only=True, slots=True)
class SpokenAnswer:
    """A question, what is said to it, with which figures, and how sure that is."""

    question: str
    reply: str
    figures: str
    sure: Sure

    @property
    def line(self) -> str:
        """The answer in one line."""
        sure = f" ({self.sure})" if self.sure else ""
        return f"{self.reply}: {self.figures}{sure}"
