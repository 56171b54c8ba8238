# ruff: noqa: F821
# mypy: disable-error-code="name-defined"
"""What recipes/pytorch installs, as a recipe of HPC Container Maker, for benchmarks/startup.py.

hpccm runs this file with its own names in scope (Stage0 and the building blocks).
"""

# Debian is not among hpccm's distributions; its packages are installed as Ubuntu's are.
Stage0 += baseimage(image="debian:bookworm", _distro="ubuntu22")
Stage0 += label(metadata={"org.opencontainers.image.title": "pytorch"})
Stage0 += packages(apt=["python3", "python3-venv", "ca-certificates", "libgomp1"])
Stage0 += pip(
    pip="pip3",
    packages=[
        "torch==2.13.0+cpu",
        "filelock==3.20.0",
        "fsspec==2025.10.0",
        "jinja2==3.1.6",
        "markupsafe==3.0.3",
        "mpmath==1.3.0",
        "networkx==3.5",
        "numpy==2.3.5",
        "setuptools==80.9.0",
        "sympy==1.14.0",
        "typing-extensions==4.15.0",
    ],
)
Stage0 += environment(
    variables={"TORCHINDUCTOR_CACHE_DIR": "/tmp/torchinductor", "LANG": "C.UTF-8"}
)
Stage0 += runscript(commands=["python3"])
