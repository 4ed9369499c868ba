# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real Prometheus, or its promtool, with given series."""

from __future__ import annotations

import contextlib
import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics import rule_groups
from ansible_collections.gpuops.nvidia.plugins.module_utils._metrics.alert import Alert, Thresholds

from lab import prometheus
from lab.errors import UnavailableError

Result = list[dict[str, t.Any]]


class Recorded:
    """A server that knows series, as of a moment."""

    def __init__(self, server: prometheus.Prometheus, moment: int) -> None:
        self._server, self._moment = server, moment

    def values(self, query: str) -> Result:
        """Return the series of a query at the moment."""
        return list(self._server.ask("query", query=query, time=str(self._moment))["result"])

    def lines(self, query: str) -> Result:
        """Return the series of a query in the 10 minutes until the moment."""
        span = {"start": str(self._moment - 600), "end": str(self._moment), "step": "60"}
        return list(self._server.ask("query_range", query=query, **span)["result"])


@contextlib.contextmanager
def serving(folder: Path, text: t.Iterable[str], moment: int) -> t.Iterator[Recorded]:
    """Run a server with the series of a text in OpenMetrics. Their times lie in the past.

    Raise UnavailableError if this machine cannot have the program.
    """
    samples, data = folder / "samples", folder / "data"
    with samples.open("w") as file:
        file.writelines(text)
    status, said = prometheus.promtool("tsdb", "create-blocks-from", "openmetrics", "--quiet", samples, data)
    assert status == 0, said
    with prometheus.running({"global": {}}, data=data) as server:
        yield Recorded(server, moment)


def named(name: str, labels: t.Mapping[str, str]) -> str:
    """Return the name of a series with its labels."""
    return f"{name}{{{','.join(f'{label}={json.dumps(value)}' for label, value in labels.items())}}}"


def promtool_tests(
    folder: Path,
    alerts: t.Sequence[Alert],
    limits: Thresholds,
    tests: t.Sequence[t.Mapping[str, t.Any]],
    interval: str = "1m",
    timeout: float = 600,
) -> tuple[int, str]:
    """Let promtool test the alert rules, evaluated at an interval. Return its exit status and what it said.

    The rules have no texts here: promtool would want each repeated.
    """
    groups = rule_groups.groups(alerts, limits, {})
    for rule in groups[1]["rules"]:
        del rule["annotations"]
    (folder / "rules.yml").write_text(json.dumps({"groups": groups}))
    whole = {"rule_files": ["rules.yml"], "evaluation_interval": interval, "tests": tests}
    (folder / "tests.yml").write_text(json.dumps(whole))
    try:
        return prometheus.promtool("test", "rules", folder / "tests.yml", timeout=timeout)
    except UnavailableError as reason:
        pytest.skip(str(reason))
