"""What holds a run back, at one moment and over many."""

import asyncio
from dataclasses import replace

import pytest

from llm_ocr.batch import bottleneck
from llm_ocr.batch.bottleneck import Bottleneck, BottleneckSampler, LoadSample, classify

# Twelve items: eight of ten places with the engine taken, four being drawn.
DRAWING = LoadSample(
    under_way=12,
    in_flight=8,
    limit=10,
    queued=0,
    waiting_for_retry=0,
    finishing=0,
    is_starting=False,
)
NOTHING = replace(DRAWING, under_way=0, in_flight=0)


def test_idle_run_has_no_bottleneck() -> None:
    assert classify(NOTHING) is None
    assert classify(replace(NOTHING, is_starting=True)) is None


def test_starting_engine_is_the_bottleneck() -> None:
    assert classify(replace(DRAWING, in_flight=0, queued=4, is_starting=True)) is Bottleneck.START


def test_full_window_or_server_queue_points_to_the_engine() -> None:
    assert classify(DRAWING) is Bottleneck.RENDERING
    assert classify(replace(DRAWING, in_flight=9)) is Bottleneck.ENGINE
    assert classify(replace(DRAWING, queued=1)) is Bottleneck.ENGINE


@pytest.mark.parametrize(
    ("waiting_for_retry", "brake_then"), [(5, Bottleneck.NETWORK), (4, Bottleneck.RENDERING)]
)
def test_many_waiting_retries_point_to_the_network(
    waiting_for_retry: int, brake_then: Bottleneck
) -> None:
    moment = replace(DRAWING, in_flight=4, waiting_for_retry=waiting_for_retry)
    assert classify(moment) is brake_then


@pytest.mark.parametrize(
    ("finishing", "brake_then"), [(4, Bottleneck.STORAGE), (3, Bottleneck.RENDERING)]
)
def test_many_unwritten_pages_point_to_the_storage(finishing: int, brake_then: Bottleneck) -> None:
    assert classify(replace(DRAWING, in_flight=2, finishing=finishing)) is brake_then


def test_last_answers_point_to_the_engine_and_missing_pages_to_rendering() -> None:
    last = replace(DRAWING, under_way=4, in_flight=2, waiting_for_retry=1, finishing=1)
    assert classify(last) is Bottleneck.ENGINE
    assert classify(replace(last, under_way=5)) is Bottleneck.RENDERING


async def test_shares_count_samples_with_a_bottleneck(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bottleneck, "LOOK_SECONDS", 0)
    starting = replace(DRAWING, is_starting=True)
    coming = [starting, DRAWING, DRAWING, None, NOTHING, DRAWING]
    seen = asyncio.Event()

    def moment() -> LoadSample | None:
        if coming:
            return coming.pop(0)
        seen.set()
        return None

    watched = BottleneckSampler()
    watching = asyncio.create_task(watched.watch(moment))
    await seen.wait()
    watching.cancel()
    assert list(watched.shares.items()) == [("rendering", 0.75), ("engine start", 0.25)]


def test_no_samples_give_no_shares() -> None:
    assert BottleneckSampler().shares == {}
