"""Checks whether an alert of `deploy/prometheus` fires for a worker's exported metrics."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ALERTS = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yml"
_SAMPLE = re.compile(r"^(\w+)(\{.*\})? (\S+)$", re.MULTILINE)
_SELECTOR = re.compile(r"((?:chargehand|temporal)_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def fires(alert: str, exported: str, folder: Path) -> bool:
    """Evaluate a rule with Prometheus's own tool over an hour at this rate, or roughly if it is not installed."""
    if shutil.which("promtool") is None:
        return _is_about(alert, exported)
    counters = set(re.findall(r"^# TYPE (\w+) (?:counter|histogram)$", exported, re.MULTILINE))
    series = [
        {
            "series": f"{name}{labels}",
            "values": f"0+{float(value) / 10}x90"
            if {name, name.removesuffix("_sum").removesuffix("_count")} & counters
            else f"{value}x90",
        }
        for name, labels, value in _SAMPLE.findall(exported)
        if "bucket" not in name
    ]
    firing = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) > bool 0'
    expected = [{"expr": firing, "eval_time": "80m", "exp_samples": [{"labels": "{}", "value": 1}]}]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": expected}
    file = folder / f"{alert}.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": [test]}))
    command = ["promtool", "test", "rules", file]
    return subprocess.run(command, check=False, capture_output=True, timeout=60).returncode == 0


def _is_about(alert: str, exported: str) -> bool:
    """Whether the metrics satisfy the rule: above 0, equal to 0 if it asks for that, or of two builds."""
    rules: dict[str, Any] = {
        each.get("alert") or each["record"]: each
        for group in yaml.safe_load(ALERTS.read_text())["groups"]
        for each in group["rules"]
    }
    expression = rules[alert]["expr"].partition("unless")[0].partition(" or ")[0]
    expression = re.sub(r"chargehand:(\w+):increase\w+", r"chargehand_\1", expression)
    wants_none = "== 0" in expression
    if "absent(" in expression:
        return not exported
    samples = [(name, dict(_LABEL.findall(labels)), float(value)) for name, labels, value in _SAMPLE.findall(exported)]
    if expression.startswith("count by"):
        [(counted, matchers)] = _SELECTOR.findall(expression)
        builds = {
            has["build"] for name, has, value in samples if name == counted and _fits(has, matchers) and value > 0
        }
        return len(builds) > 1
    return all(
        any(name == wanted and _fits(has, matchers) and (value == 0) is wants_none for name, has, value in samples)
        for wanted, matchers in _SELECTOR.findall(expression)
    )


def _fits(labels: Mapping[str, str], matchers: str) -> bool:
    return all(
        bool(re.fullmatch(value if "~" in how else re.escape(value), labels.get(name, ""))) is not how.startswith("!")
        for name, how, value in _MATCHER.findall(matchers)
    )
