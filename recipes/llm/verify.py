"""Prove that this image can adapt a language model: LoRA steps of a tiny Llama under FSDP.

The Llama has random weights and the text is made here, so nothing is fetched: LoRA's adapters are
trained for some steps under `fully_shard`, by one rank, on the CPU (gloo), and the loss falls while
the frozen weights stay. The devices are tried by the proof of the parent recipe. Prints one JSON
object; exits 1 when the loss does not fall or a frozen weight changes.
"""

import json
import math
import os
import shutil
import sys
import tempfile

STEPS = 30
WORDS, LENGTH, ROWS = 128, 32, 4
SEED = 20190617


def alone(folder):
    """Ask no server, and write neither into the user's home nor into a shared cache."""
    os.environ.update(
        HF_HOME=folder,
        HF_HUB_OFFLINE="1",
        HF_DATASETS_OFFLINE="1",
        TRANSFORMERS_OFFLINE="1",
        HF_HUB_DISABLE_TELEMETRY="1",
    )


def adapted(torch, transformers, peft):
    """Make a tiny Llama of random weights with LoRA's adapters on its attention."""
    torch.manual_seed(SEED)
    config = transformers.LlamaConfig(
        vocab_size=WORDS,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
    )
    adapters = peft.LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    return peft.get_peft_model(transformers.LlamaForCausalLM(config), adapters)


def text(datasets):
    """Give rows of made-up tokens, by way of a dataset in memory."""
    rows = [[(7 * row + 3 * at * at) % WORDS for at in range(LENGTH)] for row in range(ROWS)]
    return datasets.Dataset.from_dict({"input_ids": rows}).with_format("torch")[:]["input_ids"]


def trained(torch, model, tokens):
    """Shard a model over the one rank and train its adapters; give losses, and what froze."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (1,))
    for layer in model.base_model.model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    frozen = {name: part for name, part in model.named_parameters() if not part.requires_grad}
    before = {name: part.full_tensor().clone() for name, part in frozen.items()}
    free = [part for part in model.parameters() if part.requires_grad]
    optimizer = torch.optim.AdamW(free, lr=1e-2)
    losses = []
    for _ in range(STEPS):
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    same = all(torch.equal(part.full_tensor(), before[name]) for name, part in frozen.items())
    return losses, same


def main():
    folder = tempfile.mkdtemp()
    alone(folder)
    try:
        import accelerate  # noqa: F401  that it imports beside the others is part of the proof
        import datasets
        import peft
        import torch
        import transformers
        import trl

        torch.set_num_threads(1)  # the same sums in the same order on every machine
        # A store in this process: one rank meets nobody, and needs no port.
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        trainer = trl.SFTTrainer.__name__  # trl imports its trainers when they are asked for
        model = adapted(torch, transformers, peft)
        losses, same = trained(torch, model, text(datasets))
        torch.distributed.destroy_process_group()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ok = all(map(math.isfinite, losses)) and losses[-1] < losses[0] - 0.05 and same
    print(
        json.dumps(
            {
                "ok": ok,
                "what": "{} LoRA steps of a tiny Llama under FSDP, one rank".format(STEPS),
                "loss_first": round(losses[0], 6),
                "loss_last": round(losses[-1], 6),
                "frozen_weights": "unchanged" if same else "changed",
                "trainer": trainer,
            },
            sort_keys=True,
        )
    )
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
