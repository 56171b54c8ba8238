"""All commands that are stopped by a fault."""

from collections.abc import Mapping

from tests.faults.bundles import BUNDLES
from tests.faults.caches import CACHES
from tests.faults.stage import Subject
from tests.faults.traces import TRACES
from tests.faults.trees import TREES

SUBJECTS: Mapping[str, Subject] = {**TREES, **CACHES, **BUNDLES, **TRACES}
