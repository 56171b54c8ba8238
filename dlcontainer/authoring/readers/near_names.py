"""Names that are a slip away from a famous one: said in a note, never changed.

The list is written by hand: packages that most users of these images know.
"""

import itertools
from collections.abc import Iterable
from functools import cache

from packaging.utils import canonicalize_name

from dlcontainer.authoring.readers.conda_names import INDEX_NAMES
from dlcontainer.packages.resolve.wishes import Wish

_FAMOUS = """
    accelerate aiohttp albumentations anthropic apache-beam arviz astropy beautifulsoup4
    biopython bitsandbytes black bokeh boto3 cartopy catboost click cloudpickle cython dash dask
    datasets deepspeed dgl diffusers dill e3nn einops evaluate fastapi flash-attn flask flax
    fsspec gensim geopandas gradio grpcio gymnasium h5py healpy horovod httpx huggingface-hub
    hydra-core hypothesis imageio ipykernel ipython jax jaxlib jinja2 joblib jupyter jupyterlab
    keras kornia langchain lightgbm lightning lxml matplotlib mdanalysis megatron-core mlflow
    mpi4py mypy netcdf4 networkx nltk notebook numba numexpr numpy numpyro omegaconf onnx
    onnxruntime openai opencv-python opencv-python-headless optax optuna orbax-checkpoint
    packaging pandas pandera peft pillow plotly polars protobuf psutil pyarrow pydantic pydot
    pymatgen pyro-ppl pytest pytorch-lightning pyyaml rasterio ray rdkit regex requests rich
    ruff safetensors scikit-image scikit-learn scipy seaborn sentence-transformers sentencepiece
    setuptools shapely spacy sqlalchemy statsmodels submitit sympy tables tensorboard tensorflow
    tensorflow-datasets tensorflow-probability tensorstore tiktoken timm tokenizers torch
    torch-geometric torch-scatter torchaudio torchdata torchmetrics torchtext torchvision torchx
    tornado tqdm transformers triton trl typer typing-extensions ultralytics urllib3 vllm wandb
    wheel xarray xformers xgboost zarr
"""
FAMOUS = frozenset(_FAMOUS.split())
# Modules and other systems' names whose package has another name on the index.
ALIASES = {
    "cv2": "opencv-python-headless",
    "opencv": "opencv-python-headless",
    "pil": "pillow",
    "pytorch": "torch",
    "pytorch-cuda": "torch",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "tensorflow-gpu": "tensorflow",
    "yaml": "pyyaml",
}
# Short names have neighbours that are packages of their own: task, desk and dash beside dask.
_SHORTEST = 5
_MOST_NOTES = 10


def notes(wishes: Iterable[Wish]) -> list[str]:
    """Return a line for each name that may be a slip."""
    lines = []
    for wish in wishes:
        name = canonicalize_name(wish.requirement.name)
        near = nearest(name)
        if near is not None:
            lines.append(f"{wish.origin}: did you mean '{near}'? '{name}' is taken as written")
    more = len(lines) - _MOST_NOTES
    return lines[:_MOST_NOTES] + ([f"… and {more} more such names"] if more > 0 else [])


def nearest(name: str) -> str | None:
    """Return the famous name that one slip makes of this one, or None."""
    if name in ALIASES:
        return ALIASES[name]
    if name in FAMOUS or name in _known():
        return None
    index = _by_deletion()
    for text in _deletions(name):
        for famous in index.get(text, ()):
            if _is_slip(name, famous):
                return famous
    return None


def _known() -> frozenset[str]:
    return frozenset(canonicalize_name(name.partition("[")[0]) for name in INDEX_NAMES.values())


@cache
def _by_deletion() -> dict[str, list[str]]:
    """Map each famous name, and each with a letter taken out, to the names that it comes from."""
    index: dict[str, list[str]] = {}
    for famous in sorted(FAMOUS):
        for text in _deletions(famous):
            index.setdefault(text, []).append(famous)
    return index


def _deletions(name: str) -> set[str]:
    return {name, *(name[:at] + name[at + 1 :] for at in range(len(name)))}


def _is_slip(name: str, famous: str) -> bool:
    """Return whether one letter more, less or other, or two swapped, make the famous name."""
    pairs = zip(name, famous, strict=False)
    start = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    name_end, famous_end = name[start:], famous[start:]
    if name_end[2:] == famous_end[2:] and name_end[:2] == famous_end[:2][::-1]:
        return True
    if len(famous) < _SHORTEST:
        return False
    ends = (
        (name_end[1:], famous_end),
        (name_end, famous_end[1:]),
        (name_end[1:], famous_end[1:]),
    )
    return any(left == right for left, right in ends)
