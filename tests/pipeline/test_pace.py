"""What holds a run back, at one moment and over many."""

import asyncio
from dataclasses import replace

import pytest

from llm_ocr.pipeline import pace
from llm_ocr.pipeline.pace import Brake, Moment, Pace, brake

# Twelve items: eight of ten places with the engine taken, four being drawn.
DRAWING = Moment(
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
    assert brake(NOTHING) is None
    assert brake(replace(NOTHING, is_starting=True)) is None


def test_an_engine_that_starts_holds_back_whatever_else_waits() -> None:
    assert brake(replace(DRAWING, in_flight=0, queued=4, is_starting=True)) is Brake.START


def test_a_full_window_or_a_queue_is_the_engines() -> None:
    assert brake(DRAWING) is Brake.RENDERING
    assert brake(replace(DRAWING, in_flight=9)) is Brake.ENGINE
    assert brake(replace(DRAWING, queued=1)) is Brake.ENGINE


@pytest.mark.parametrize(
    ("between_tries", "brake_then"), [(5, Brake.NETWORK), (4, Brake.RENDERING)]
)
def test_more_requests_between_tries_than_in_flight_are_the_networks(
    between_tries: int, brake_then: Brake
) -> None:
    moment = replace(DRAWING, in_flight=4, between_tries=between_tries)
    assert brake(moment) is brake_then


@pytest.mark.parametrize(("finishing", "brake_then"), [(4, Brake.STORAGE), (3, Brake.RENDERING)])
def test_more_pages_to_be_written_than_in_flight_are_the_storages(
    finishing: int, brake_then: Brake
) -> None:
    assert brake(replace(DRAWING, in_flight=2, finishing=finishing)) is brake_then


def test_the_last_answers_are_the_engines_and_pages_beside_them_the_renderings() -> None:
    last = replace(DRAWING, under_way=4, in_flight=2, between_tries=1, finishing=1)
    assert brake(last) is Brake.ENGINE
    assert brake(replace(last, under_way=5)) is Brake.RENDERING


async def test_the_shares_are_of_the_moments_at_which_something_held_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pace, "LOOK_SECONDS", 0)
    starting = replace(DRAWING, is_starting=True)
    coming = [starting, DRAWING, DRAWING, None, NOTHING, DRAWING]
    seen = asyncio.Event()

    def moment() -> Moment | None:
        if coming:
            return coming.pop(0)
        seen.set()
        return None

    watched = Pace()
    watching = asyncio.create_task(watched.watch(moment))
    await seen.wait()
    watching.cancel()
    assert list(watched.shares.items()) == [("rendering", 0.75), ("engine start", 0.25)]


def test_no_moments_have_no_shares() -> None:
    assert Pace().shares == {}
