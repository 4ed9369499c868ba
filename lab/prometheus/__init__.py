# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real Prometheus on loopback, and its promtool: Debian's package prometheus."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import time
import typing as t
from pathlib import Path

import urllib3

from lab import ports, programs
from lab.errors import LabError
from lab.process import Component

_START_S = 60

Json = dict[str, t.Any]


def promtool(*arguments: str | Path, timeout: float = 300) -> tuple[int, str]:
    """Run promtool and return its exit status and its output. Raise UnavailableError if this machine cannot have it."""
    command = [programs.provide("prometheus", "promtool"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    return done.returncode, done.stdout + done.stderr


class Prometheus:
    """A server that runs."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, **query: str) -> t.Any:
        """Return the data of an answer of the API: ``ask("query", query="up")``. Raise LabError with its error."""
        answer = urllib3.request("GET", f"{self.url}/api/v1/{path}", fields=query, timeout=60)
        if answer.status != 200:
            raise LabError(f"Prometheus refuses {path} {query}: {answer.data.decode(errors='replace')}")
        return answer.json()["data"]

    def values(self, expression: str) -> list[Json]:
        """Return the series of an expression now."""
        return list(self.ask("query", query=expression)["result"])

    def alerts(self) -> list[Json]:
        """Return the alerts that fire."""
        return [alert for alert in self.ask("alerts")["alerts"] if alert["state"] == "firing"]


@contextlib.contextmanager
def serving(name: str, command: t.Sequence[str], folder: Path) -> t.Iterator[str]:
    """Run a server of Prometheus's family during a block, with its log in the folder, and give its address.

    Raise LabError with the end of the log if it does not start.
    """
    (port,) = ports.free(1)
    options = [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
    server = Component(name, [*command, *options], folder / "log", folder, dict(os.environ))
    server.start()
    try:
        url = f"http://127.0.0.1:{port}"
        until_ready(server, url)
        yield url
    finally:
        server.kill()


def until_ready(server: Component, url: str) -> None:
    """Wait until a server of Prometheus's family answers queries. Raise LabError with the end of its log if not."""
    deadline = time.monotonic() + _START_S
    while not _is_ready(url):
        if not server.alive or time.monotonic() > deadline:
            raise LabError(f"{server.name.capitalize()} did not start: {server.log_end()}")
        time.sleep(0.05)


def _is_ready(url: str) -> bool:
    try:
        return urllib3.request("GET", f"{url}/-/ready", timeout=2, retries=False).status == 200
    except urllib3.exceptions.HTTPError:
        return False


@contextlib.contextmanager
def running(configuration: Json, rules: Json | None = None, *, data: Path | None = None) -> t.Iterator[Prometheus]:
    """Run a server during a block, with its configuration and its rules as data.

    ``data`` is a folder with series, of which it keeps even those of long ago. Raise UnavailableError if this machine
    cannot have the program.
    """
    program = programs.provide("prometheus")
    with tempfile.TemporaryDirectory(prefix="gpuops-prometheus-") as name:
        folder = Path(name)
        (folder / "rules.yml").write_text(json.dumps(rules or {"groups": []}))
        whole = {**configuration, "rule_files": [str(folder / "rules.yml")]}
        (folder / "prometheus.yml").write_text(json.dumps(whole))
        command = [
            str(program),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={data or folder / 'data'}",
            "--storage.tsdb.retention.time=100y",
        ]
        with serving("prometheus", command, folder) as url:
            yield Prometheus(url)
