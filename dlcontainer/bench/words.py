"""The closed sets of a benchmark's command line, where importing them costs nothing."""

from typing import Literal

Probe = Literal["import", "train"]
Question = Literal["overhead", "deployment"]
