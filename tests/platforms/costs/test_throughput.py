"""Throughput: from the package, from a user's file, and from a user's runs."""

from pathlib import Path

import pytest

from llm_ocr.platforms.costs.throughput import (
    NoThroughputError,
    append_throughput,
    gpu_short_name,
    load_throughput,
    observed_throughput,
)
from llm_ocr.platforms.costs.toml_files import TomlFileError
from llm_ocr.report.sessions import SessionLog, write_session
from llm_ocr.report.status import NoRunError
from llm_ocr.settings import Settings
from llm_ocr.storage.store import open_store

A100 = "vLLM 0.32.0 on 1 x NVIDIA A100-SXM4-80GB"


def session(run: Path, name: str, pages: int, seconds: float | None, *engines: str) -> None:
    record = SessionLog(
        started=f"2026-11-21T10:00:00.{name}",
        command="llm-ocr run",
        version="0.1.0",
        stages=["extract"],
        readers={"extract": {"profile": "deepseek-ocr"}},
        engines=list(engines),
        seconds=seconds,
        pages=pages,
    )
    write_session(open_store(str(run)), name, record)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA A100 80GB PCIe", "a100"),
        ("NVIDIA A100-PCIE-40GB", "a100-40"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA L40", "l40"),
        ("NVIDIA A10G", "a10g"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H200", "h200"),
        ("Tesla T4", "t4"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000"),
        ("NVIDIA GeForce RTX 4090", None),
    ],
)
def test_gpus_are_known_by_nvidias_names(name: str, short: str | None) -> None:
    assert gpu_short_name(name) == short


def test_the_package_has_published_figures_with_a_spread() -> None:
    speeds = load_throughput()
    expected = {"a100": 91, "l40s": 83, "l4": 39}
    for gpu, pages in expected.items():
        known = speeds.get(gpu, "deepseek-ocr")
        assert known is not None
        speed = known.pages_per_minute
        assert (speed.low, speed.expected, speed.high) == pytest.approx(
            (0.7 * pages, pages, 1.3 * pages)
        )
    assert speeds.get("l4", "olmocr-2") is None


def test_figures_of_runs_override_the_packages(tmp_path: Path) -> None:
    session(tmp_path / "a", "1", 6000, 3600.0, A100)
    session(tmp_path / "a", "2", 3000, 1200.0, A100)
    session(tmp_path / "b", "3", 4800, 3600.0, "vLLM 0.32.0 on 2 x NVIDIA L4")
    found = observed_throughput([str(tmp_path / "a"), str(tmp_path / "b")], Settings())
    mine = tmp_path / "sub" / "mine.toml"
    append_throughput(mine, found)
    speeds = load_throughput(mine)
    a100, l4 = (speeds.get(gpu, "deepseek-ocr") for gpu in ("a100", "l4"))
    assert a100 is not None
    assert l4 is not None
    # 9,000 pages in 80 minutes, once 100 and once 150 a minute.
    both = (a100.pages_per_minute.low, a100.pages_per_minute.expected, a100.pages_per_minute.high)
    assert both == pytest.approx((100, 112.5, 150))
    # 80 a minute on two GPUs.
    assert l4.pages_per_minute.expected == pytest.approx(40)
    assert (l4.pages_per_minute.low, l4.pages_per_minute.high) == pytest.approx((36, 44))
    assert a100.source.url == f"9,000 pages of {tmp_path / 'a'}"
    assert speeds.get("l40s", "deepseek-ocr") == load_throughput().get("l40s", "deepseek-ocr")


def test_appending_keeps_the_files_content(tmp_path: Path) -> None:
    session(tmp_path / "run", "1", 1000, 600.0, A100)
    mine = tmp_path / "mine.toml"
    mine.write_text('# by hand\n[[measured]]\ngpu = "t4"\nmodel = "x"\npages_per_minute = 3\n')
    append_throughput(mine, observed_throughput([str(tmp_path / "run")], Settings()))
    assert mine.read_text().startswith("# by hand\n")
    speeds = load_throughput(mine)
    assert speeds.get("t4", "x") is not None
    known = speeds.get("a100", "deepseek-ocr")
    assert known is not None
    assert known.pages_per_minute.expected == pytest.approx(100)


def test_sessions_without_a_usable_speed_are_left_out(tmp_path: Path) -> None:
    session(tmp_path / "run", "1", 99, 60.0, A100)
    session(tmp_path / "run", "2", 1000, None, A100)
    session(tmp_path / "run", "3", 1000, 600.0, "vLLM 0.32.0")
    session(tmp_path / "run", "4", 1000, 600.0, A100, "vLLM 0.32.0 on 1 x NVIDIA L4")
    run = [str(tmp_path / "run")]
    with pytest.raises(NoThroughputError, match="name its GPU with `gpu`"):
        observed_throughput(run, Settings())
    [known] = observed_throughput(run, Settings(), gpu="l4")
    assert known.gpu == "l4"
    assert known.pages_per_minute.expected == pytest.approx(100)
    with pytest.raises(NoRunError, match="holds no run"):
        observed_throughput([str(tmp_path / "nowhere")], Settings())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[measured]]\ngpu = "l4"\nmodel = "x"\npages_per_minute = 0\n', "pages_per_minute"),
        ('[[measured]]\ngpu = "l4"\npages_per_minute = 5\n', "model: Field required"),
        (
            '[[measured]]\ngpu = "l4"\nmodel = "x"\npages_per_minute = 5\nlow = 6\n',
            "l4 with x: low 6, pages_per_minute 5",
        ),
    ],
)
def test_an_invalid_file_is_an_error_and_not_appended_to(
    tmp_path: Path, text: str, said: str
) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(text)
    with pytest.raises(TomlFileError, match=said):
        load_throughput(mine)
    with pytest.raises(TomlFileError):
        append_throughput(mine, ())
    assert mine.read_text() == text
