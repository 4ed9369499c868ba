# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real Prometheus with given series: that of Debian, unpacked without an installation."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
import typing as t
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from lab import ports
from lab.process import Component

Result = list[dict[str, t.Any]]


def unpack(folder: Path) -> Path:
    """Return the folder with the programs prometheus and promtool, from Debian's package."""
    download = ["apt-get", "--quiet", "download", "prometheus"]
    if subprocess.run(download, cwd=folder, check=False).returncode:
        # A new machine knows no package until it asks for its package lists.
        subprocess.run(["apt-get", "--quiet", "--option", "DPkg::Lock::Timeout=120", "update"], check=True)
        subprocess.run(download, cwd=folder, check=True)
    [package] = folder.glob("prometheus_*.deb")
    subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)
    return folder / "usr" / "bin"


class Prometheus:
    """A server that knows the series of a text in OpenMetrics, as of a moment."""

    def __init__(self, url: str, moment: int) -> None:
        self._url = url
        self._moment = moment

    def values(self, query: str) -> Result:
        """Return the series of a query at the moment."""
        return self._ask("query", query=query, time=str(self._moment))

    def lines(self, query: str) -> Result:
        """Return the series of a query in the 10 minutes until the moment."""
        return self._ask("query_range", query=query, start=str(self._moment - 600), end=str(self._moment), step="60")

    def _ask(self, kind: str, **parameters: str) -> Result:
        url = f"{self._url}/api/v1/{kind}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url) as answer:
                return list(json.load(answer)["data"]["result"])
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters['query']}: {error.read().decode()}") from error


@contextlib.contextmanager
def serving(programs: Path, folder: Path, text: t.Iterable[str], moment: int) -> t.Iterator[Prometheus]:
    """Run a server with these series. Their times lie in the past, and are kept all the same."""
    samples = folder / "samples"
    with samples.open("w") as file:
        file.writelines(text)
    create = [programs / "promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet", samples, folder / "data"]
    subprocess.run(create, check=True)
    (folder / "prometheus.yml").write_text("global: {}\n")
    [port] = ports.free(1)
    options = [
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    server = Component("prometheus", [str(programs / "prometheus"), *options], folder / "log", folder)
    server.start()
    try:
        _wait(f"http://127.0.0.1:{port}/-/ready", server)
        yield Prometheus(f"http://127.0.0.1:{port}", moment)
    finally:
        server.stop()


def _wait(url: str, server: Component) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and server.alive:
        with contextlib.suppress(urllib.error.URLError), urllib.request.urlopen(url):
            return
        time.sleep(0.1)
    raise AssertionError(f"Prometheus is not ready: {server.log_end()}")
