"""The shortest network of your own: `--script docs/measure/forecast_build.py:build`."""

import torch


def build():
    """Return model, optimizer, one batch and the loss."""
    model = torch.nn.Sequential(
        torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 10)
    )
    optimizer = torch.optim.AdamW(model.parameters())
    sample = torch.zeros(32, 1024), torch.zeros(32, dtype=torch.long)
    return model, optimizer, sample, torch.nn.functional.cross_entropy
