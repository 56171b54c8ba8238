"""Prove that this image's vLLM works: a small Llama with random weights generates on a GPU, offline.

Prints one JSON object; exits 1 when it does not generate as asked for, or not the same twice.
Without a device vLLM is imported, and that is said. Never run by its authors: they had no GPU.
"""

import json
import os
import shutil
import sys
import tempfile

TOKENS = 16
VOCABULARY = 1024
# A Llama of some 2 million parameters; "dummy" weights need no file of them.
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 256,
    "vocab_size": VOCABULARY,
    "rms_norm_eps": 1e-5,
    "torch_dtype": "bfloat16",
}


def generated(place):
    """Generate from two prompts, given as token ids: no tokenizer is needed. Return their tokens."""
    from vllm import LLM, SamplingParams

    with open(os.path.join(place, "config.json"), "w") as file:
        json.dump(MODEL, file)
    llm = LLM(
        model=place,
        load_format="dummy",
        skip_tokenizer_init=True,
        enforce_eager=True,
        max_model_len=128,
        gpu_memory_utilization=0.3,
        seed=0,
    )
    wanted = SamplingParams(temperature=0, max_tokens=TOKENS, ignore_eos=True, detokenize=False)
    prompts = [{"prompt_token_ids": list(range(start, start + 8))} for start in (3, 300)]
    answers = [llm.generate(prompts, wanted, use_tqdm=False) for _ in range(2)]
    return [[list(one.outputs[0].token_ids) for one in answer] for answer in answers]


def main():
    place = tempfile.mkdtemp(prefix="vllm-")
    os.environ.update(
        HOME=place,
        HF_HUB_OFFLINE="1",
        TRANSFORMERS_OFFLINE="1",
        VLLM_NO_USAGE_STATS="1",
        VLLM_ENABLE_V1_MULTIPROCESSING="0",  # no process beside this one
    )
    try:
        import torch
        import vllm

        if not torch.cuda.is_available():
            what = "import of vLLM {}; generation not tried: torch sees no device".format(
                vllm.__version__
            )
            print(json.dumps({"ok": True, "what": what}))
            return 0
        first, second = generated(place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    good = first == second and all(
        len(tokens) == TOKENS and all(0 <= token < VOCABULARY for token in tokens)
        for tokens in first
    )
    what = "2 x {} tokens of a random Llama on {}".format(TOKENS, torch.cuda.get_device_name(0))
    print(json.dumps({"ok": good, "what": what}, sort_keys=True))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
