"""Alert rules and the dashboard: valid for Prometheus, and about metrics that exist."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

FOLDER = ROOT / "monitoring"
ALERTS = (FOLDER / "alerts.yaml").read_text("utf-8")
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text("utf-8"))
EXPRESSIONS = [
    target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())
]
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool (Debian's package prometheus)"
)


def promtool(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = ["promtool", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def metrics_in(text: str) -> set[str]:
    """Names of metrics, those of a histogram's parts as the histogram."""
    names = set(re.findall(r"\bllm_ocr_\w+", text))
    return {re.sub(r"_(bucket|count|sum)$", "", name) for name in names}


def documented_metrics() -> set[str]:
    """What processes serve: see `tests.service.test_metrics`."""
    page = (ROOT / "docs" / "service" / "monitoring.md").read_text("utf-8")
    return set(re.findall(r"`(llm_ocr_\w+)`", page))


@needs_promtool
def test_alert_rules_pass_their_tests() -> None:
    done = promtool("test", "rules", FOLDER / "alerts-test.yaml")
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def test_each_alert_is_tested() -> None:
    tests = (FOLDER / "alerts-test.yaml").read_text("utf-8")
    names = re.findall(r"alert: (\w+)", ALERTS)
    assert len(names) > 10
    assert [name for name in names if f"alertname: {name}\n    exp_alerts" not in tests] == []


@needs_promtool
def test_expressions_of_the_dashboard_are_valid(tmp_path: Path) -> None:
    assert len(EXPRESSIONS) > 30
    rules = [
        {"record": f"panel:{k}", "expr": expr.replace("$__rate_interval", "5m")}
        for k, expr in enumerate(EXPRESSIONS)
    ]
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}), "utf-8")
    done = promtool("check", "rules", path)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def test_alerts_and_dashboard_are_about_metrics_that_exist() -> None:
    used = metrics_in(ALERTS) | metrics_in(" ".join(EXPRESSIONS))
    assert used - documented_metrics() == set()


def test_the_dashboard_shows_every_metric() -> None:
    assert documented_metrics() - metrics_in(" ".join(EXPRESSIONS)) == set()


def test_panels_do_not_overlap() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [
        (x, y)
        for one in places
        for x in range(one["x"], one["x"] + one["w"])
        for y in range(one["y"], one["y"] + one["h"])
    ]
    assert len(cells) == len(set(cells))
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
