"""What helps where a program of an image gave no answer, by cause."""

# Apptainer's and SingularityCE's own exit code: the program inside was never started.
ENGINE_FAILED = 255
TRY_ENGINE = "see whether the engine runs images on this host: dlcontainer doctor"
CHANGED = (
    "the image was changed after it was built, or its recipe breaks its own Python: take a copy as "
    "it was built, or correct the recipe and build it again"
)
SLOW = "try again on an idle machine, with the image on a local disk"
CHATTY = (
    "something prints whenever the image's Python starts (a .pth file, sitecustomize): take it out "
    "of the recipe, then build it again"
)
