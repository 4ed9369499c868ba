# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Containers that crash, with the reason in their logs: excerpts of the corpus of published evidence.

`break_fleet` lets twenty crash in a fleet that `bulk.multiply` has made.
"""

from __future__ import annotations

import functools
import json
import time
import typing as t
from pathlib import Path

import yaml

from lab.cluster import Lab, faults, nodes
from lab.cluster.controlplane import components as controlplane
from lab.errors import LabError

KWOK = Path(nodes.__file__).parent / "kwok"

CORPUS = Path(__file__).parents[1] / "tests" / "unit" / "fixtures" / "diagnosis" / "corpus"

DRIVER = ("nvidia-driver-daemonset", "nvidia-driver-ctr")
TOOLKIT = ("nvidia-container-toolkit-daemonset", "nvidia-container-toolkit-ctr")
PLUGIN = ("nvidia-device-plugin-daemonset", "nvidia-device-plugin")
EXPORTER = ("nvidia-dcgm-exporter", "nvidia-dcgm-exporter")

FAULTS = {
    "signature-gpu-operator-266": DRIVER,
    "fabric-version-gpu-operator-544": DRIVER,
    "runtime-socket-gpu-operator-406": TOOLKIT,
    "headers-eus-gpu-operator-190": DRIVER,
    "entitlement-openshift-doc": DRIVER,
    "driver-toolkit-openshift-doc": DRIVER,
    "packages-unreachable-gpu-operator-1244": DRIVER,
    "nouveau-negativo17-73": DRIVER,
    "gcc-clearlinux-1133": DRIVER,
    "open-geforce-ogkm-230": DRIVER,
    "adapter-pai-4344": DRIVER,
    "symbols-nct-482": DRIVER,
    "gsp-bootstrap-ogkm-433": DRIVER,
    "inforom-gpu-operator-20": DRIVER,
    "template-rke2-3385": TOOLKIT,
    "mismatch-k8s-device-plugin-1431": PLUGIN,
    "ldconfig-k8s-device-plugin-1400": PLUGIN,
    "daemon-reload-nct-1227": EXPORTER,
}
"""Excerpts of the corpus, and the container that says them."""

OF_FLEET = (
    "headers-eus-gpu-operator-190",
    "signature-gpu-operator-266",
    "gcc-clearlinux-1133",
    "mismatch-k8s-device-plugin-1431",
)
"""Those of a large fleet, where each cause is on several nodes."""
NOISE = [f"I1123 12:00:{second:02} installing component {second}" for second in range(60)] * 5
"""What comes before them: a log has hundreds of lines."""


class Published(t.NamedTuple):
    """An excerpt of the corpus, and the codes that name its cause."""

    lines: list[str]
    codes: frozenset[str]


@functools.cache
def published() -> dict[str, Published]:
    """Return the excerpts of the corpus."""
    classes = yaml.safe_load((CORPUS / "classes.yml").read_text())
    files = [yaml.safe_load(path.read_text()) for path in CORPUS.glob("*.yml") if path.stem != "classes"]
    return {
        entry["id"]: Published(entry["excerpt"].splitlines(), frozenset(classes.get(entry["failure"], ())))
        for entries in files
        for entry in entries
    }


def break_fleet(lab: Lab, fleet: int, count: int = 20) -> list[tuple[str, str]]:
    """Let containers on the first nodes crash, and return the pods, each with its container."""
    # Of all that simulates life, only the server of the logs comes back.
    lab.add_component(controlplane.kwok(lab.site, [*sorted(KWOK.glob("*.yaml")), lab.folder / "podlogs" / "kwok.yaml"]))
    texts, broken = published(), list[tuple[str, str]]()
    for number in range(count):
        cause = OF_FLEET[number % len(OF_FLEET)]
        app, container = FAULTS[cause]
        name = faults.crash(lab, app, f"gpu-{number:04}", container, [*NOISE, *texts[cause].lines])
        broken.append((name, container))
    for app in (DRIVER[0], PLUGIN[0]):
        ready = fleet - sum(name.startswith(app) for name, dummy in broken)
        patch = json.dumps({"status": {"numberReady": ready, "numberAvailable": ready}})
        arguments = ("--namespace=gpu-operator", "--subresource=status", "--type=merge", f"--patch={patch}")
        lab.kubectl("patch", "daemonset", app, *arguments)
    _until_served(lab, *broken[-1])
    return broken


def _until_served(lab: Lab, pod: str, container: str) -> None:
    """Wait until a log can be read."""
    deadline = time.monotonic() + 60
    while True:
        try:
            lab.kubectl("logs", "--namespace=gpu-operator", pod, f"--container={container}")
            return
        except LabError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
