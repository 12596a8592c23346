"""What vLLM's own detection of repetitions costs at each step. Run by vLLM's Python.

    .venv-vllm/bin/python benchmarks/repetition.py

vLLM looks for a repeated pattern of each wanted length after each token of each request, in the
scheduler's own thread. Printed: microseconds a token for an answer without a repetition, and what
that adds to one step of 256 requests.
"""

import random
import time

ANSWER, ROUNDS, REQUESTS = 2000, 2000, 256
LONGEST = (4, 16, 64, 256, 560)


def main() -> None:
    # Only vLLM's environment has these.
    from vllm.sampling_params import RepetitionDetectionParams
    from vllm.v1.core.sched.utils import check_sequence_repetition

    chance = random.Random(0)
    answer = [chance.randrange(100_000) for _ in range(ANSWER)]
    print(f"{'longest pattern':>15}{'us a token':>12}{'ms a step':>11}")
    for longest in LONGEST:
        wanted = RepetitionDetectionParams(
            min_pattern_size=1, max_pattern_size=longest, min_count=3
        )
        began = time.perf_counter()
        for _ in range(ROUNDS):
            check_sequence_repetition(answer, wanted)
        each = (time.perf_counter() - began) / ROUNDS
        print(f"{longest:15}{1e6 * each:12.1f}{1e3 * each * REQUESTS:11.2f}")


if __name__ == "__main__":
    main()
