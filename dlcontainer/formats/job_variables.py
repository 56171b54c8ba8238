"""How scripts tell their job from others, and their rank: words of a shell, from the schedulers."""

import textwrap
from collections.abc import Mapping

from dlcontainer import schedulers
from dlcontainer.config.templating import Text
from dlcontainer.schedulers import SCHEDULERS

# A long list goes on in the next line.
_LINE_END = " \\\n        "


def values() -> Mapping[str, object]:
    """Return what templates show of all schedulers, whichever the site has.

    A script may run in another's job: a site without a scheduler is somebody's allocation.
    """
    jobs = schedulers.job_variables()
    numbers = " ".join(job.word for job in jobs)
    return {
        "job_numbers": Text(_LINE_END.join(textwrap.wrap(numbers, 88, break_on_hyphens=False))),
        "job_words": [Text(" ".join(job.words)) for job in jobs],
        "rank_of_launch": Text(schedulers.first_rank()),
        "running_jobs": [
            {
                "program": Text(batch.running.split()[0]),
                "command": Text(batch.running),
                "number": Text(batch.job.word),
            }
            for batch in SCHEDULERS.values()
            if batch.running and batch.job
        ],
    }
