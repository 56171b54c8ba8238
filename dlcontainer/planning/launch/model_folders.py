"""Where models and data that frameworks fetch go by default: into a user's own folder at the site.

They are kept between jobs, so no folder of a node, and too large for a home.
"""

from collections.abc import Collection, Mapping

from dlcontainer.sites.site import Site

# Variable -> folder in `.cache` of the user's own. Sources: huggingface_hub/constants.py (2.4.0);
# torch/hub.py, vllm/envs.py, mxnet/base.py, tensorflow_datasets (remembered). Left out: KERAS_HOME,
# which holds the user's settings too, and caches of compiled code, which lie on the node
# (`modulefiles.CACHES`).
FOLDERS: Mapping[str, str] = {
    "HF_HOME": "huggingface",
    "TORCH_HOME": "torch",
    "VLLM_CACHE_ROOT": "vllm",
    "MXNET_HOME": "mxnet",
    "TFDS_DATA_DIR": "tensorflow_datasets",
}
# Those that lie in XDG_CACHE_HOME where nothing names another place.
OF_XDG = ("HF_HOME", "TORCH_HOME", "VLLM_CACHE_ROOT")
# What else follows HF_HOME: the user's token, which stays at home.
TOKEN = "HF_TOKEN_PATH"  # noqa: S105


def of(site: Site) -> str | None:
    """Return a user's own folder at a site, with the variables that its nodes fill in."""
    folders = (system.user_folder for system in site.filesystems)
    return next((folder for folder in folders if folder), None)


def defaults(taken: Collection[str]) -> Mapping[str, str]:
    """Return the variables that have a default, without those that site or image set."""
    return {name: folder for name, folder in FOLDERS.items() if name not in taken}
