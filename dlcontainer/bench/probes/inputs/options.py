"""What `bench input` can be asked for."""

from collections.abc import Mapping, Sequence

from dlcontainer.bench.probes.base import QUICK, Option, ProbeSubject
from dlcontainer.errors import ChecksFailedError, UsageError

# format -> the module that it takes; the probe's own list, which a test holds against this.
FORMATS: Mapping[str, str] = {
    "files": "",
    "tar": "",
    "raw": "",
    "npz": "",
    "tfrecord": "",
    "hdf5": "h5py",
    "hdf5-contiguous": "h5py",
    "lmdb": "lmdb",
    "zarr": "zarr",
    "parquet": "pyarrow",
}
# They can't read one sample alone.
STREAMED = ("parquet",)
# The variant of the shipped recipe whose images have all modules.
VARIANT = "pytorch, variant io"
# CIFAR-10's images, 3 x 32 x 32, as float32.
SIZE = 3 * 32 * 32 * 4

BY_FORMAT = Option(
    name="formats",
    metavar="NAME,...",
    help=f"Of {', '.join(FORMATS)}. Default: those that the image's recipe has the modules for.",
)
BY_SHUFFLE = Option(name="shuffles", metavar="NAME,...", help="full, window. Default: both.")
BY_READERS = Option(
    name="readers",
    metavar="N,...",
    help="Processes that read; 0: the one that trains. Default: 0,1,2,4, quick 0,2.",
)
BY_TIER = Option(
    name="tiers",
    metavar="NAME,...",
    help="cache, disk; with --folder or --data cache, folder, staged (copied to TMPDIR before), "
    "mixed (some shards copied). Default: all of them, quick the first two.",
)
SAMPLES = Option(
    name="samples", kind=int, metavar="N", least=2, help="Samples. Default: 1024, quick 512."
)
SAMPLE_BYTES = Option(
    name="sample_bytes", kind=int, metavar="N", least=1, help=f"Of a sample. Default: {SIZE}."
)
WINDOW = Option(
    name="window",
    kind=int,
    metavar="N",
    least=1,
    help="Samples that the window shuffle draws from. Default: those of a shard.",
)
FOLDER = Option(
    name="folder",
    metavar="FOLDER",
    help="Where the data set is made and read, on the file system to measure. Default: TMPDIR.",
)
KEEP = Option(
    name="keep",
    kind=bool,
    help="Leave the data set in --folder: later sessions find it there, and need not write.",
)
DATA = Option(
    name="data",
    metavar="FOLDER",
    help="Your own samples: every file below it is one. Nothing is written to it.",
)
HITS = Option(
    name="hits",
    kind=int,
    metavar="PERCENT",
    default=50,
    least=0,
    help="Of tier mixed: the share of the shards that are copied. Default: 50.",
)
DEMAND = Option(
    name="demand",
    kind=int,
    metavar="SAMPLES/S",
    least=1,
    help="What a training step takes: the report says which rows supply it.",
)

OPTIONS = (
    *(BY_FORMAT, BY_SHUFFLE, BY_READERS, BY_TIER, SAMPLES, SAMPLE_BYTES, WINDOW),
    *(FOLDER, KEEP, DATA, HITS, DEMAND, QUICK),
)


def require_known(option: Option, text: str, words: Sequence[str]) -> None:
    """Refuse the name of a format that there is not; raises UsageError."""
    for word in words:
        if word not in FORMATS:
            raise UsageError(
                f"{option.flag} {text}: there is no '{word}' here",
                next_step=f"of {', '.join(FORMATS)}",
            )


def require_modules(
    option: Option, text: str, words: Sequence[str], contents: ProbeSubject
) -> None:
    """Refuse formats whose module the image's recipe does not verify; raises ChecksFailedError."""
    modules = contents.modules
    for word in words:
        if FORMATS[word] and FORMATS[word] not in modules:
            raise ChecksFailedError(
                f"{option.flag} {text}: {contents.image} does not verify {FORMATS[word]}",
                why=f"the format {word} takes it; the recipe {contents.recipe} verifies "
                f"{', '.join(modules) or 'no module'}",
                next_step=f"measure an image of the recipe {VARIANT}, or name the module in the "
                "recipe's verify.imports and build again",
            )
