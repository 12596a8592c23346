"""vLLM's own offline engine on the pages of `benchmarks.offline`. Run by vLLM's Python.

    python offline_vllm.py TASK.json RESULT.json

The task has `argv` (arguments of `vllm serve`, as a list), `prompt`, and `pages`: paths of images
with the number of tokens to write about each. The result: seconds of `LLM.generate`, and tokens.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    # Only vLLM's environment has these.
    from PIL import Image
    from vllm import LLM, EngineArgs, SamplingParams
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    task: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
    parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
    known, _ = parser.parse_known_args(task["argv"])
    llm = LLM(**vars(EngineArgs.from_cli_args(known)))
    prompts, sampling = [], []
    for path, tokens in task["pages"]:
        image = Image.open(path).convert("RGB")
        prompts.append({"prompt": task["prompt"], "multi_modal_data": {"image": image}})
        sampling.append(SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True))
    llm.generate(prompts[:1], SamplingParams(temperature=0.0, max_tokens=8), use_tqdm=False)
    began = time.monotonic()
    outputs = llm.generate(prompts, sampling, use_tqdm=False)
    seconds = time.monotonic() - began
    tokens = sum(len(output.outputs[0].token_ids) for output in outputs)
    Path(sys.argv[2]).write_text(json.dumps({"seconds": seconds, "tokens": tokens}))


if __name__ == "__main__":
    main()
