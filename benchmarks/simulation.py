"""A GPU that serves pages, as arithmetic: vLLM's continuous batching in simulated seconds.

Each step gives one token to every sequence that decodes, and computes prompts with what is left of
the step's token budget. Steps that are alike are taken at once, up to the next one at which
anything happens, so that a minute of GPU time costs milliseconds.
"""

import heapq
import math
from collections import deque
from dataclasses import dataclass, field, replace
from itertools import count


@dataclass(frozen=True)
class Gpu:
    """What a GPU with DeepSeek-OCR on it can hold, and how long a step takes.

    A step of `n` decoding sequences takes `base + per_sequence * n` seconds, and more for each
    token of a prompt: of a page's own tokens, in which the vision tower's work is, and of the text
    of an answer that is gone on with, which only the decoder reads.
    """

    kv_tokens: int
    max_num_seqs: int
    base: float
    per_sequence: float
    per_prompt_token: float
    per_text_token: float
    # What `vllm serve` takes by default on GPUs below 70 GiB and on the A100.
    max_num_batched_tokens: int = 2048

    def slower(
        self, by: float, kv_tokens: int, max_num_seqs: int, max_num_batched_tokens: int = 2048
    ) -> "Gpu":
        """A GPU whose every step takes `by` times as long."""
        return replace(
            self,
            kv_tokens=kv_tokens,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=max_num_batched_tokens,
            base=self.base * by,
            per_sequence=self.per_sequence * by,
            per_prompt_token=self.per_prompt_token * by,
            per_text_token=self.per_text_token * by,
        )


# Seconds are fitted to speeds that were seen (FACTS): on the A100 the recipe's barriers of 128 and
# 256 pages and a window of 256, on the others what the recipe publishes. The KV caches are those
# that it logged. vLLM's default on these GPUs is 256 sequences. The A100's cache holds 550 typical
# pages, so it is run with 512; the L40S's holds 280; the L4's holds 105, so that there the cache
# binds and sequences are preempted, as they would be. A token of text is arithmetic: 0.57 billion
# parameters of the decoder are used for each (arXiv 2510.18234), 1.14 GFLOP, at a third of the
# A100's 312 TFLOP/s. The H100 is fitted to 3.3 pages/s: LightOnOCR-1B reads 5.71 there (arXiv
# 2601.14251), which its model card calls 1.73 times as fast as DeepSeek-OCR. It has as much memory
# as the A100, so its cache is taken to be as large; vLLM's defaults there are 1,024 sequences and
# 8,192 tokens per step.
_A100 = Gpu(
    1_115_616, 512, base=0.016, per_sequence=2.05e-4, per_prompt_token=5e-5, per_text_token=1.1e-5
)
GPUS = {
    "a100": _A100,
    "h100": _A100.slower(
        0.885, kv_tokens=1_115_616, max_num_seqs=1024, max_num_batched_tokens=8192
    ),
    "l40s": _A100.slower(1.14, kv_tokens=567_000, max_num_seqs=256),
    "l4": _A100.slower(2.27, kv_tokens=215_680, max_num_seqs=256),
}


@dataclass(eq=False)
class Request:
    """One prompt and the answer it will get; `arrived` and `finished` are simulated seconds.

    The last `text_tokens` of the prompt are what there was of the answer before.
    """

    prompt_tokens: int
    completion_tokens: int
    reason: str = "stop"
    text_tokens: int = 0
    arrived: float = 0.0
    finished: float = 0.0
    preempted: int = 0
    # As of the last time that it joined or left the decoding sequences.
    generated: int = 0
    computed: int = 0
    joined: int = 0
    # Of its place among the ends of decoding sequences; -1 while it is none.
    ticket: int = -1

    @property
    def held(self) -> int:
        """The cache that its prompt and what it has said take when it is admitted."""
        return self.prompt_tokens + self.generated

    def pages_own(self, tokens: int) -> int:
        """How many of the next `tokens` to be computed are not text."""
        left = self.prompt_tokens - self.text_tokens - self.computed
        return max(0, min(tokens, left))


@dataclass
class Counters:
    """What vLLM counts, summed over the server's life."""

    preemptions: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    most_kv_tokens: int = 0
    finished: dict[str, int] = field(default_factory=lambda: {"stop": 0, "length": 0, "abort": 0})


@dataclass(frozen=True)
class Stride:
    """The next steps, all alike: how many, how long each, and which prompts are computed."""

    steps: int
    seconds: float
    chunks: tuple[tuple[Request, int], ...] = ()


class Simulation:
    """Requests go in with `add`; `advance` lets time pass and gives those that are answered."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.now = 0.0
        self.kv_used = 0
        self.counters = Counters()
        self._step = 0
        self._waiting: deque[Request] = deque()
        # In the order of admission: the newest is preempted first.
        self._running: dict[Request, None] = {}
        self._prefilling: list[Request] = []
        self._ends: list[tuple[int, int, Request]] = []
        self._order = count()

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def unfinished_tokens(self) -> int:
        """Tokens of answers that are not at their end, which a death would throw away."""
        said = sum(self._step - one.joined for one in self._running if one.ticket >= 0)
        return said + sum(one.generated for one in (*self._running, *self._waiting))

    def said(self, request: Request) -> int:
        """Tokens of its answer so far."""
        return request.generated + (self._step - request.joined if request.ticket >= 0 else 0)

    @property
    def _decoding(self) -> int:
        return len(self._running) - len(self._prefilling)

    @property
    def _free(self) -> int:
        return self.gpu.kv_tokens - self.kv_used

    def add(self, request: Request, at: float) -> None:
        """A request comes in; `at` is not before the time that `advance` was last given."""
        if request.prompt_tokens + request.completion_tokens > self.gpu.kv_tokens:
            raise ValueError("a request that is larger than the whole cache is never answered")
        request.arrived = at
        self._waiting.append(request)

    def abort(self, request: Request) -> None:
        """The client went away."""
        if request in self._running:
            self._leave(request)
        elif request in self._waiting:
            self._waiting.remove(request)
        else:
            return
        self.counters.finished["abort"] += 1

    def next_event(self) -> float | None:
        """When something happens if nothing else comes in; None when there is nothing to do."""
        stride = self._stride()
        return None if stride is None else self.now + stride.steps * stride.seconds

    def advance(self, until: float) -> list[Request]:
        """Take all the steps that end by `until`; the requests that were answered, in order."""
        finished: list[Request] = []
        while (stride := self._stride()) is not None:
            # The small share mends what rounding takes off a whole number of steps.
            steps = min(stride.steps, int((until - self.now) / stride.seconds + 1e-6))
            if steps < 1:
                break
            finished += self._take(stride, steps)
        return finished

    def _stride(self) -> Stride | None:
        """The next steps. Asking twice at the same time gives the same."""
        if self._waiting and not self._running:
            self.now = max(self.now, self._waiting[0].arrived)
        self._make_room()
        chunks = self._chunks()
        decoding = self._decoding
        if not decoding and not chunks:
            return None
        prompt = sum(tokens for _, tokens in chunks)
        own = sum(request.pages_own(tokens) for request, tokens in chunks)
        gpu = self.gpu
        seconds = gpu.base + gpu.per_sequence * decoding
        seconds += gpu.per_prompt_token * own + gpu.per_text_token * (prompt - own)
        if chunks:
            return Stride(1, seconds, chunks)
        steps = min(self._next_end() - self._step, self._free // decoding)
        if self._waiting and self._waiting[0].arrived > self.now:
            steps = min(steps, math.ceil((self._waiting[0].arrived - self.now) / seconds))
        return Stride(max(1, steps), seconds)

    def _make_room(self) -> None:
        """Each decoding sequence needs a token of cache in the next step."""
        while self._free < self._decoding:
            newest = next(reversed(self._running))
            self._leave(newest)
            newest.preempted += 1
            self.counters.preemptions += 1
            self._waiting.appendleft(newest)

    def _chunks(self) -> tuple[tuple[Request, int], ...]:
        """The prompt tokens of the next step, of those admitted before and of those that fit."""
        budget = self.gpu.max_num_batched_tokens - self._decoding
        chunks: list[tuple[Request, int]] = []
        for request in self._prefilling:
            if budget <= 0:
                return tuple(chunks)
            chunks.append((request, min(budget, request.held - request.computed)))
            budget -= chunks[-1][1]
        while budget > 0 and self._admits():
            request = self._waiting.popleft()
            self._running[request] = None
            self._prefilling.append(request)
            self._hold(request.held)
            chunks.append((request, min(budget, request.held)))
            budget -= chunks[-1][1]
        return tuple(chunks)

    def _admits(self) -> bool:
        if not self._waiting or len(self._running) >= self.gpu.max_num_seqs:
            return False
        first = self._waiting[0]
        return first.arrived <= self.now and first.held + self._decoding <= self._free

    def _take(self, stride: Stride, steps: int) -> list[Request]:
        decoding = self._decoding
        self.now += steps * stride.seconds
        self._step += steps
        self._hold(steps * decoding)
        self.counters.generation_tokens += steps * decoding
        finished: list[Request] = []
        while self._decoding > len(finished) and self._next_end() <= self._step:
            finished.append(heapq.heappop(self._ends)[2])
        for request, tokens in stride.chunks:
            request.computed += tokens
            if request.computed == request.held and self._say_first(request):
                finished.append(request)
        for request in finished:
            request.finished = self.now
            self._leave(request)
            self.counters.finished[request.reason] += 1
        return finished

    def _say_first(self, request: Request) -> bool:
        """The step that ends a prompt gives a token too; True if that was all."""
        if not request.generated:
            self.counters.prompt_tokens += request.prompt_tokens
        self.counters.generation_tokens += 1
        if request.generated + 1 == request.completion_tokens:
            return True
        self._prefilling.remove(request)
        # The new token takes its place in the cache in the step after this one.
        request.generated += 1
        request.joined = self._step
        left = request.completion_tokens - request.generated
        request.ticket = next(self._order)
        heapq.heappush(self._ends, (self._step + left, request.ticket, request))
        return False

    def _next_end(self) -> int:
        while self._ends:
            end, ticket, request = self._ends[0]
            if ticket == request.ticket:
                return end
            heapq.heappop(self._ends)
        raise AssertionError("a sequence that decodes has an end")

    def _leave(self, request: Request) -> None:
        """Out of the running ones, with the cache it holds."""
        del self._running[request]
        if request.ticket < 0:
            self._prefilling.remove(request)
            self._hold(-request.held)
            request.computed = 0
            return
        said = self._step - request.joined
        self._hold(-(request.held - 1 + said))
        request.generated += said
        request.computed, request.ticket = 0, -1

    def _hold(self, tokens: int) -> None:
        self.kv_used += tokens
        self.counters.most_kv_tokens = max(self.counters.most_kv_tokens, self.kv_used)


def metrics(simulation: Simulation, model: str) -> str:
    """What vLLM's `/metrics` says, of what concerns load, in Prometheus' text format."""
    counters, kv_tokens = simulation.counters, simulation.gpu.kv_tokens
    here = f'engine="0",model_name="{model}"'
    figures = {
        ("gauge", "num_requests_running"): simulation.running,
        ("gauge", "num_requests_waiting"): simulation.waiting,
        ("gauge", "kv_cache_usage_perc"): simulation.kv_used / kv_tokens,
        ("counter", "num_preemptions_total"): counters.preemptions,
        ("counter", "prompt_tokens_total"): counters.prompt_tokens,
        ("counter", "generation_tokens_total"): counters.generation_tokens,
    }
    lines = [
        f"# TYPE vllm:{name} {kind}\nvllm:{name}{{{here}}} {float(value)}"
        for (kind, name), value in figures.items()
    ]
    lines.append("# TYPE vllm:request_success_total counter")
    for reason, number in counters.finished.items():
        ended = f'{{{here},finished_reason="{reason}"}} {float(number)}'
        lines.append(f"vllm:request_success_total{ended}")
    sizes = f'kv_cache_size_tokens="{kv_tokens}",num_gpu_blocks="{kv_tokens // 16}"'
    lines.append("# TYPE vllm:cache_config_info gauge")
    lines.append(f'vllm:cache_config_info{{block_size="16",engine="0",{sizes}}} 1.0')
    return "\n".join(lines) + "\n"
