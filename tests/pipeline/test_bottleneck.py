"""What holds a run back, at one moment and over many."""

import asyncio
from dataclasses import replace

import pytest

from llm_ocr.pipeline import bottleneck
from llm_ocr.pipeline.bottleneck import Bottleneck, BottleneckSampler, LoadSample, classify

# Twelve items: eight of ten places with the engine taken, four being drawn.
DRAWING = LoadSample(
    under_way=12,
    in_flight=8,
    window=10,
    queued=0,
    between_tries=0,
    finishing=0,
    is_starting=False,
)
NOTHING = replace(DRAWING, under_way=0, in_flight=0)


def test_nothing_holds_back_a_run_with_nothing_under_way() -> None:
    assert classify(NOTHING) is None
    assert classify(replace(NOTHING, is_starting=True)) is None


def test_an_engine_that_starts_holds_back_whatever_else_waits() -> None:
    assert classify(replace(DRAWING, in_flight=0, queued=4, is_starting=True)) is Bottleneck.START


def test_a_full_window_or_a_queue_is_the_engines() -> None:
    assert classify(DRAWING) is Bottleneck.RENDERING
    assert classify(replace(DRAWING, in_flight=9)) is Bottleneck.ENGINE
    assert classify(replace(DRAWING, queued=1)) is Bottleneck.ENGINE


@pytest.mark.parametrize(
    ("between_tries", "brake_then"), [(5, Bottleneck.NETWORK), (4, Bottleneck.RENDERING)]
)
def test_more_requests_between_tries_than_in_flight_are_the_networks(
    between_tries: int, brake_then: Bottleneck
) -> None:
    moment = replace(DRAWING, in_flight=4, between_tries=between_tries)
    assert classify(moment) is brake_then


@pytest.mark.parametrize(
    ("finishing", "brake_then"), [(4, Bottleneck.STORAGE), (3, Bottleneck.RENDERING)]
)
def test_more_pages_to_be_written_than_in_flight_are_the_storages(
    finishing: int, brake_then: Bottleneck
) -> None:
    assert classify(replace(DRAWING, in_flight=2, finishing=finishing)) is brake_then


def test_the_last_answers_are_the_engines_and_pages_beside_them_the_renderings() -> None:
    last = replace(DRAWING, under_way=4, in_flight=2, between_tries=1, finishing=1)
    assert classify(last) is Bottleneck.ENGINE
    assert classify(replace(last, under_way=5)) is Bottleneck.RENDERING


async def test_the_shares_are_of_the_moments_at_which_something_held_back(
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


def test_no_moments_have_no_shares() -> None:
    assert BottleneckSampler().shares == {}
