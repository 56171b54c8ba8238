"""What `bench input` can be asked for."""

from collections.abc import Mapping, Sequence

from dlcontainer.bench.probes.probe import QUICK, Option, ProbeSubject
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
    help=f"Sample formats to measure: {', '.join(FORMATS)}. Default: those that the image's recipe "
    "has the modules for.",
)
BY_SHUFFLE = Option(
    name="shuffles", metavar="NAME,...", help="Shuffles to measure: full, window. Default: both."
)
BY_READERS = Option(
    name="readers",
    metavar="N,...",
    help="Numbers of reader processes; 0: the training process reads. Default: 0,1,2,4; with "
    "--quick 0,2.",
)
BY_TIER = Option(
    name="tiers",
    metavar="NAME,...",
    help="Storage tiers to read from: cache, disk; with --folder or --data: cache, folder, staged "
    "(copied to TMPDIR first), mixed (some shards copied). Default: all; with --quick the first "
    "two.",
)
SAMPLES = Option(
    name="samples",
    kind=int,
    metavar="N",
    least=2,
    help="Number of samples. Default: 1024; with --quick 512.",
)
SAMPLE_BYTES = Option(
    name="sample_bytes",
    kind=int,
    metavar="N",
    least=1,
    help=f"Size of a sample, bytes. Default: {SIZE}.",
)
WINDOW = Option(
    name="window",
    kind=int,
    metavar="N",
    least=1,
    help="Number of samples that the window shuffle draws from. Default: the samples of one shard.",
)
FOLDER = Option(
    name="folder",
    metavar="FOLDER",
    help="Folder on the file system to measure, to make and read the data set in. Default: TMPDIR.",
)
KEEP = Option(
    name="keep",
    kind=bool,
    help="Keep the data set in --folder, so that later sessions need not write it again.",
)
DATA = Option(
    name="data",
    metavar="FOLDER",
    help="Folder of your own samples: each file below it is one sample. Nothing is written there.",
)
HITS = Option(
    name="hits",
    kind=int,
    metavar="PERCENT",
    default=50,
    least=0,
    help="With tier mixed: share of the shards that are copied, percent. Default: 50.",
)
DEMAND = Option(
    name="demand",
    kind=int,
    metavar="SAMPLES/S",
    least=1,
    help="Rate that training needs, samples/s. The report shows which rows supply it.",
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
                f"{option.flag} {text}: unknown format '{word}'",
                next_step=f"choose from: {', '.join(FORMATS)}",
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
                why=f"the format {word} needs this module; the recipe {contents.recipe} verifies "
                f"{', '.join(modules) or 'no module'}",
                next_step=f"measure an image of the recipe {VARIANT}, or add the module to the "
                "recipe's verify.imports and rebuild the image",
            )
