"""conda's names of packages that the index has as well: one project each, by its index name.

Written by hand. Equal names are no proof: on the index `boost`, `eigen`, `ffmpeg`, `gmp`, `nodejs`
and `pytorch` are other people's things. A name that stands nowhere here is refused.
"""

# The same project under the same name.
_SAME = """
    absl-py accelerate aiohttp albumentations altair anndata arviz asdf astropy attrs babel
    bokeh boto3 botorch bottleneck cartopy catboost certifi cffi cftime charset-normalizer chex
    click cloudpickle cmake colorama coloredlogs colorlog contourpy cryptography cycler cython
    dask-jobqueue datasets decorator deepdiff diffusers dill distributed docutils e3nn einops
    evaluate faiss-cpu fastapi fastparquet filelock flake8 flask flax fonttools fsspec ftfy
    future gdown gensim geopandas gitpython gpytorch gradio grpcio gymnasium h5netcdf h5py
    healpy holoviews horovod httpx humanize hydra-core hypothesis idna imageio imbalanced-learn
    iniconfig ipykernel ipython ipywidgets isort jax jaxlib jaxtyping jedi jinja2 joblib
    jsonschema jupyter jupyter_client jupyter_core jupyterlab keras kiwisolver kornia librosa
    lightgbm lightning lightning-utilities llvmlite loguru lxml lz4 markdown markupsafe
    mdanalysis mdtraj mlflow more-itertools mpi4py mpmath multidict mypy natsort nbconvert
    nbformat netcdf4 networkx nibabel nilearn ninja nltk notebook numba numcodecs numexpr numpy
    numpyro oauthlib omegaconf onnx onnxruntime openai openpyxl opt_einsum optax optuna orjson
    packaging pandas pandera papermill parso patsy peft pexpect pillow platformdirs plotly
    pluggy polars pooch pre-commit prompt-toolkit protobuf psutil pyarrow pybind11 pycocotools
    pycparser pydantic pydicom pygments pymatgen pyparsing pyproj pytest pytest-cov
    pytest-xdist python-dateutil pytorch-lightning pytz pyvista pyyaml pyzmq rasterio regex
    requests rich rioxarray ruamel.yaml ruff sacrebleu sacremoses safetensors scanpy
    scikit-image scikit-learn scipy seaborn sentence-transformers sentencepiece sentry-sdk
    setuptools shap shapely simpleitk simplejson six snakemake sortedcontainers spacy sphinx
    sqlalchemy statsmodels submitit sympy tabulate tenacity tensorboard tensorboardx tensorflow
    tensorflow-datasets tensorflow-hub tensorflow-probability termcolor texttable threadpoolctl
    tifffile tiktoken timm tokenizers toml tomli toolz torchaudio torchmetrics torchvision
    tornado tqdm traitlets transformers trimesh trl typeguard typer typing-extensions
    typing_extensions ujson umap-learn uproot urllib3 uvicorn wandb wcwidth websockets werkzeug
    wheel wrapt xarray xgboost xlrd xxhash yacs yapf yarl zarr zipp
"""
# The same project under another name. conda's dask and jupyter are sets of packages.
_OTHER = {
    "dask": "dask[complete]",
    "dask-core": "dask",
    "huggingface_hub": "huggingface-hub",
    "importlib_metadata": "importlib-metadata",
    "matplotlib": "matplotlib",
    "matplotlib-base": "matplotlib",
    "msgpack-python": "msgpack",
    "opencv": "opencv-python-headless",
    "py-opencv": "opencv-python-headless",
    "py-xgboost": "xgboost",
    "py-xgboost-cpu": "xgboost",
    "py-xgboost-gpu": "xgboost",
    "pyg": "torch-geometric",
    "pytables": "tables",
    "pysoundfile": "soundfile",
    "python-tzdata": "tzdata",
    "pytorch": "torch",
    "pytorch-cpu": "torch",
    "pytorch-gpu": "torch",
    "pytorch_geometric": "torch-geometric",
    "ray-core": "ray",
    "ray-default": "ray[default]",
    "ray-tune": "ray[tune]",
    "seaborn-base": "seaborn",
    "tensorflow-cpu": "tensorflow",
    "tensorflow-gpu": "tensorflow",
}
INDEX_NAMES = {name: name for name in _SAME.split()} | _OTHER
# The index's releases of these have one number more: 4.10.0 there is 4.10.0.84 here.
MORE_NUMBERS = frozenset({"opencv", "py-opencv"})

# What a variant of the recipe brings, with the driver of its site: run-time libraries of devices
# and of linear algebra, and conda's marks for a choice that the site makes.
_VARIANT = """
    _openmp_mutex blas blas-devel cpuonly cuda-version cudatoolkit cudnn icc_rt intel-openmp
    libblas libcblas libgcc libgcc-ng libgfortran libgfortran-ng libgfortran5 libgomp liblapack
    liblapacke libmagma libmagma_sparse libopenblas libstdcxx libstdcxx-ng libtorch llvm-openmp
    magma mkl mkl-service mkl_fft mkl_random nccl nomkl onemkl-license openblas pytorch-cuda
    pytorch-mutex sleef tbb
"""
VARIANT_BRINGS = frozenset(_VARIANT.split())
VARIANT_PREFIXES = (
    *("cuda-cudart", "cuda-cupti", "cuda-libraries", "cuda-nvrtc", "cuda-nvtx", "cuda-opencl"),
    *("cuda-runtime", "libcublas", "libcudnn", "libcufft", "libcufile", "libcurand", "libcusolver"),
    *("libcusparse", "libmagma", "libnpp", "libnvjitlink", "libnvjpeg", "libcudss"),
)
# What conda lists beside its Python; the base's Python has its own.
_PYTHON = """
    _libgcc_mutex bzip2 ca-certificates expat ld_impl_linux-64 ld_impl_linux-aarch64
    ld_impl_linux-ppc64le libexpat libffi liblzma libnsl libsqlite libuuid libxcrypt libzlib
    ncurses openssl pip python_abi readline sqlite tk tzdata xz zlib
"""
PYTHON_BRINGS = frozenset(_PYTHON.split())
