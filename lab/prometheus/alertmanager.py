# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real Alertmanager on loopback: Debian's package prometheus-alertmanager."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
import typing as t
from pathlib import Path

import urllib3

from lab import programs
from lab.errors import LabError, UnavailableError
from lab.prometheus import Json, serving

Labels = dict[str, str]

# Debian's build reads its templates from /usr/share. It gets the files of its package there, and nobody else does.
_ALONE = ("unshare", "--user", "--map-root-user", "--mount")
_SEES_ITS_FILES = (*_ALONE, "sh", "-c", 'mount --bind "$1" /usr/share && shift && exec "$@"', "sh")


class Alertmanager:
    """A server that runs."""

    def __init__(self, url: str) -> None:
        self.url = url

    def fire(self, alerts: t.Iterable[Labels]) -> None:
        """Tell it of alerts that fire, as Prometheus does."""
        self._ask("POST", "alerts", [{"labels": labels} for labels in alerts])

    def told(self) -> list[Labels]:
        """Return the alerts that receivers hear of: those that nothing inhibits."""
        found = self._ask("GET", "alerts?inhibited=false")
        return [alert["labels"] for alert in found]

    def groups(self) -> list[tuple[Labels, list[Labels]]]:
        """Return the messages: the labels of each group, and its alerts."""
        found = self._ask("GET", "alerts/groups?inhibited=false")
        return [(group["labels"], [alert["labels"] for alert in group["alerts"]]) for group in found]

    def _ask(self, method: str, path: str, body: t.Any = None) -> t.Any:
        answer = urllib3.request(method, f"{self.url}/api/v2/{path}", json=body, timeout=10)
        if answer.status != 200:
            raise LabError(f"Alertmanager refuses {path}: {answer.data.decode(errors='replace')}")
        return answer.json() if answer.data else None


@contextlib.contextmanager
def running(configuration: Json) -> t.Iterator[Alertmanager]:
    """Run a server during a block, with its configuration as data.

    Raise UnavailableError if this machine cannot have the program.
    """
    program = programs.provide("prometheus-alertmanager")
    if subprocess.run([*_ALONE, "true"], capture_output=True, check=False).returncode:
        raise UnavailableError("The lab's Alertmanager needs a mount namespace, which this machine refuses.")
    with tempfile.TemporaryDirectory(prefix="gpuops-alertmanager-") as name:
        folder = Path(name)
        (folder / "alertmanager.yml").write_text(json.dumps(configuration))
        command = [
            *_SEES_ITS_FILES,
            str(program.parents[1] / "share"),
            str(program),
            f"--config.file={folder / 'alertmanager.yml'}",
            f"--storage.path={folder / 'data'}",
            "--cluster.listen-address=",
        ]
        with serving("alertmanager", command, folder) as url:
            yield Alertmanager(url)
