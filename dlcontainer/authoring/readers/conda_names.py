"""conda's names of packages that the index has as well: one project each, by its index name.

Written by hand. Equal names are no proof: on the index `boost`, `eigen`, `ffmpeg`, `gmp`, `nodejs`
and `pytorch` are other people's things. A name that stands nowhere here is refused.
"""

# The same project under the same name.
_SAME = """
    absl-py accelerate adlfs aiohttp aiosignal albumentations alembic altair anndata annotated-types
    anyio appdirs argon2-cffi arviz asciitree asdf astropy asttokens astunparse async-lru
    async-timeout attrs awscli babel backcall beautifulsoup4 biopython black bleach blinker bokeh
    boto3 botorch bottleneck brotlipy cached-property cachetools cartopy catboost certifi cf_xarray
    cffi cftime charset-normalizer chex click cloudpickle cmake colorama coloredlogs colorlog comm
    configargparse contourpy cryptography cycler cython cytoolz dask-jobqueue datasets debugpy
    decorator deepdiff deprecated diffusers dill distributed docker-pycreds docutils e3nn einops
    entrypoints evaluate exceptiongroup executing faiss-cpu fastai fastapi fastcore fasteners
    fastparquet ffmpeg-python filelock fire flake8 flask flax flit-core fonttools frozenlist fsspec
    ftfy future gast gcsfs gdown gensim geopandas gitdb gitpython google-auth google-auth-oauthlib
    google-pasta gpytorch gradio grpcio gym gymnasium h11 h5netcdf h5py healpy heapdict holoviews
    horovod httpcore httpx humanize hydra-core hypothesis idna imageio imbalanced-learn
    importlib-metadata importlib_resources iniconfig ipykernel ipython ipywidgets isort jax jaxlib
    jaxtyping jedi jinja2 joblib json5 jsonschema jupyter jupyter_client jupyter_core jupyter_server
    jupyterlab jupyterlab_pygments jupyterlab_server jupyterlab_widgets keras keras-preprocessing
    kiwisolver kornia lazy_loader librosa lightgbm lightning lightning-utilities llvmlite locket
    loguru lxml lz4 markdown markdown-it-py markupsafe matplotlib-inline mdanalysis mdtraj mdurl
    metpy mistune ml-collections mlflow mne mock modelcif more-itertools mpi4py mpmath multidict
    munkres mypy mypy_extensions natsort nbclient nbconvert nbformat nest-asyncio netcdf4 networkx
    nibabel nilearn ninja nltk notebook notebook-shim numba numcodecs numexpr numpy numpyro oauthlib
    omegaconf onnx onnxruntime openai openmm openpyxl opt_einsum optax optuna orjson overrides
    packaging pandas pandera pandocfilters papermill parso partd pathspec patsy pdbfixer peft
    pexpect pickleshare pillow platformdirs plotly pluggy polars pooch portalocker pre-commit prody
    prometheus_client prompt-toolkit protobuf psutil ptyprocess pure_eval pyarrow pyasn1
    pyasn1-modules pybind11 pycocotools pycparser pydantic pydantic-core pydicom pygments pyjwt
    pymatgen pyopenssl pyparsing pyproj pyrsistent pyshtools pysocks pytest pytest-cov pytest-mock
    pytest-xdist python-dateutil python-dotenv python-json-logger pytorch-lightning pytz pyvista
    pywavelets pyyaml pyzmq rasterio referencing regex requests requests-oauthlib retrying rich
    rioxarray rpds-py rsa ruamel.yaml ruff s3fs sacrebleu sacremoses safetensors scanpy scikit-image
    scikit-learn scipy seaborn send2trash sentence-transformers sentencepiece sentry-sdk
    setproctitle setuptools shap shapely simpleitk simplejson six smmap snakemake sniffio
    sortedcontainers soupsieve spacy sphinx sqlalchemy stack_data starlette statsmodels submitit
    sympy tabulate tblib tenacity tensorboard tensorboard-data-server tensorboard-plugin-wit
    tensorboardx tensorflow tensorflow-datasets tensorflow-estimator tensorflow-hub
    tensorflow-probability termcolor terminado texttable threadpoolctl tifffile tiktoken timm
    tinycss2 tokenizers toml tomli toolz torchaudio torchmetrics torchvision tornado tqdm traitlets
    transformers trimesh trl typeguard typer typing-extensions typing_extensions ujson umap-learn
    uproot urllib3 uvicorn wandb wcwidth webencodings websocket-client websockets werkzeug wheel
    widgetsnbextension wrapt xarray xgboost xlrd xxhash yacs yapf yarl zarr zict zipp
"""
# The same project under another name. conda's dask and jupyter are sets of packages.
_OTHER = {
    "antlr-python-runtime": "antlr4-python3-runtime",
    "brotli-python": "brotli",
    "dask": "dask[complete]",
    "dask-core": "dask",
    "h3-py": "h3",
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
    "prompt_toolkit": "prompt-toolkit",
    "pytables": "tables",
    "pysoundfile": "soundfile",
    "python-tzdata": "tzdata",
    "python-fastjsonschema": "fastjsonschema",
    "pytorch": "torch",
    "pytorch-cpu": "torch",
    "pytorch-gpu": "torch",
    "pytorch-cluster": "torch-cluster",
    "pytorch-scatter": "torch-scatter",
    "pytorch-sparse": "torch-sparse",
    "pytorch-spline-conv": "torch-spline-conv",
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
