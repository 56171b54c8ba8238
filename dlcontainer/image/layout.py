"""Paths inside every image, and where a build shows its steps the way to mirrors and indexes."""

FOLDER = "/opt/dlcontainer"
MANIFEST = f"{FOLDER}/manifest.json"
VERIFY = f"{FOLDER}/verify.py"
PROBE = f"{FOLDER}/probe"
PROVENANCE = f"{FOLDER}/provenance.json"
LIBRARIES = f"{FOLDER}/libraries.json"
# In the folder of packages of the image's Python.
PACK_FILE = "/_dlcontainer_pack.bin"
PACK = f"{FOLDER}/pack.json"
# What an import opens beside the pack, in the order in which the image has it.
TRACE = f"{FOLDER}/import.trace"
# Of a bill of materials, in the image and beside it.
SBOM_SUFFIX = ".cdx.json"
SBOM = f"{FOLDER}/sbom{SBOM_SUFFIX}"

# A build may bind a folder here that says how the outside is reached (mirrors, proxies, CA). The
# folder exists in every FHS root tree and is empty in the finished image; without the file the
# commands use the distribution's and pip's defaults.
ROUTING_FOLDER = "/mnt"
ROUTING_SCRIPT = f"{ROUTING_FOLDER}/routing.sh"


def proof_name(recipe: str) -> str:
    """Name the file of the proof of a recipe that an image's recipe extends."""
    return f"verify-{recipe}.py"


def proof(recipe: str) -> str:
    """Return where that file lies: beside the probe, which it looks for there."""
    return f"{FOLDER}/{proof_name(recipe)}"


def upstream_variable(name: str) -> str:
    """Name the variable through which a build routes a recipe's upstream elsewhere."""
    return f"DLC_UPSTREAM_{name.upper()}"
