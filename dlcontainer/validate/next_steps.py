"""What helps where a program of an image gave no answer, by cause."""

# Apptainer's and SingularityCE's own exit code: the program inside was never started.
ENGINE_FAILED = 255
TRY_ENGINE = "check that the engine runs images on this host: dlcontainer doctor"
CHANGED = (
    "use an unchanged copy, or correct the recipe and build again: the image was changed after the "
    "build, or its recipe breaks its own Python"
)
SLOW = "try again on an idle machine, with the image on a local disk"
CHATTY = (
    "remove the output that appears whenever the image's Python starts (a .pth file, "
    "sitecustomize) "
    "from the recipe, then build again"
)
