# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real Prometheus with given series."""

from __future__ import annotations

import contextlib
import typing as t
from pathlib import Path

from lab import prometheus

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
