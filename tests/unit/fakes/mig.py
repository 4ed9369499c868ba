# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The MIG manager, feature discovery and device plugin of the fake API server's nodes. The lab's are closer to reality.

A list of nodes is one tick. As the vendor's, the manager reacts to a value of the label that differs from the last one
that it has read, and forgets that when its pod starts again.
"""

from __future__ import annotations

import dataclasses
import typing as t

from tests.unit.fakes.api import DAEMONSETS, NODES, PODS, POLICIES, FakeApi, Reply
from tests.unit.fakes.stack import Json

CONFIG, STATE, PAUSED = "nvidia.com/mig.config", "nvidia.com/mig.config.state", "paused-for-mig-change"
CONFIGMAPS = "/api/v1/namespaces/gpu-operator/configmaps"
DEPLOY = "nvidia.com/gpu.deploy."
H100 = "NVIDIA-H100-80GB-HBM3"

LAYOUTS: dict[str, dict[str, int]] = {
    "all-disabled": {},
    "all-1g.10gb": {"1g.10gb": 7},
    "all-3g.40gb": {"3g.40gb": 2},
    "all-balanced": {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1},
    "too-much": {"3g.40gb": 3},
    "a100-only": {"1g.5gb": 7},
}


def text(layouts: t.Mapping[str, t.Mapping[str, int]] | None = None) -> str:
    """Return a file of the MIG manager, by default with all layouts."""
    lines = ["version: v1", "mig-configs:"]
    for name, counts in (LAYOUTS if layouts is None else layouts).items():
        lines += [f"  {name}:", "  - devices: all", f"    mig-enabled: {str(bool(counts)).lower()}"]
        lines += ["    mig-devices:", *(f"      {key}: {value}" for key, value in counts.items())] if counts else []
    return "\n".join(lines) + "\n"


def configmap(name: str, content: str | None) -> Json:
    """Return a ConfigMap with layouts."""
    return {
        "metadata": {"name": name, "namespace": "gpu-operator"},
        "data": {"config.yaml": content} if content else {},
    }


@dataclasses.dataclass
class _Manager:
    read: str | None = None
    run: str = ""
    left: int = 0
    latched: bool = False


class MigFleet:
    """Lets the nodes of a fake API server react to their labels.

    ``trouble`` is what happens in the next change of a node: ``lost``, ``stays-pending``, ``hangs``, ``failed``,
    ``left-paused``, ``wrong`` (success, and nothing changes), ``rebooting`` (for ever).
    """

    def __init__(self, api: FakeApi, strategy: str = "mixed", ticks: int = 2) -> None:
        self.api, self.strategy, self.ticks = api, strategy, ticks
        self.trouble: dict[str, str] = {}
        self.managers: dict[str, _Manager] = {}
        self.log: list[tuple[str, str]] = []
        self.most = 0
        """How many nodes were cordoned at once."""
        self.on_tick: t.Callable[[], None] = lambda: None
        names = [node["metadata"]["name"] for node in api.lists[NODES]]
        api.lists[CONFIGMAPS] = [configmap(f"{name}-mig-config", text()) for name in names]
        api.lists[POLICIES][0]["spec"]["mig"] = {"strategy": strategy}
        if not any(item["metadata"]["name"] == "nvidia-mig-manager" for item in api.lists[DAEMONSETS]):
            made = {"metadata": {"name": "nvidia-mig-manager"}, "spec": {"template": {"spec": {"containers": []}}}}
            api.lists[DAEMONSETS].append(made)
        api.table = [[f"mig-{name}", "1/1", "Running", 0, "1d", "10.0.0.1", name] for name in names]
        api.lists[PODS] = [
            {"metadata": {"name": f"mig-{name}", "namespace": "gpu-operator"}, "spec": {}} for name in names
        ]
        for name in names:
            self.label(name, {"nvidia.com/mig.strategy": strategy})
            self.managers[name] = _Manager()
            self.settle(name, "all-disabled")
        self.special: t.Callable[[str, str], Reply | None] = lambda method, path: None
        api.answer = self._answer

    def node(self, name: str = "gpu-0000") -> Json:
        """Return a node."""
        return next(item for item in self.api.lists[NODES] if item["metadata"]["name"] == name)

    def labels(self, name: str = "gpu-0000") -> dict[str, str]:
        """Return a node's labels."""
        return dict(self.node(name)["metadata"]["labels"])

    def label(self, name: str, labels: t.Mapping[str, str | None]) -> None:
        """Change labels of a node, as a controller does."""
        node = self.node(name)
        made = {**node["metadata"]["labels"], **labels}
        node["metadata"]["labels"] = {key: value for key, value in made.items() if value is not None}
        node["metadata"]["resourceVersion"] = str(int(node["metadata"].get("resourceVersion", 1)) + 1)

    def settle(self, name: str, layout: str) -> None:
        """Put a node into a layout, as after a successful change."""
        self.managers[name].read = layout
        self.label(name, {CONFIG: layout, STATE: "success"})
        self.offer(name, LAYOUTS[layout])

    def offer(self, name: str, counts: t.Mapping[str, int], gpus: int = 8) -> None:
        """Let feature discovery and the device plugin report a layout."""
        node = self.node(name)
        old = {key: None for key in node["metadata"]["labels"] if key.startswith("nvidia.com/mig-")}
        found: dict[str, str]
        if self.strategy == "single" and counts:
            profile, number = next(iter(counts.items()))
            found = {"nvidia.com/gpu": str(number * gpus)}
            product = f"{H100}-MIG-{profile}" if len(counts) == 1 else f"{H100}-MIG-INVALID"
            labels: dict[str, str | None] = {
                "nvidia.com/gpu.product": product,
                "nvidia.com/gpu.count": str(number * gpus),
            }
        else:
            found = {f"nvidia.com/mig-{profile}": str(number * gpus) for profile, number in counts.items()}
            labels = {f"{resource}.count": number for resource, number in found.items()}
            labels |= {"nvidia.com/gpu.product": H100, "nvidia.com/gpu.count": str(gpus)}
            found = found or {"nvidia.com/gpu": str(gpus)}
        self.label(name, {**old, **labels})
        node["status"]["allocatable"] = {"cpu": "64", **found}

    # ---- time

    def _answer(self, method: str, path: str) -> Reply | None:
        special = self.special(method, path)
        if special:
            return special
        if method == "GET" and path == NODES:
            self.on_tick()
            self.most = max(self.most, sum(bool(node["spec"].get("unschedulable")) for node in self.api.lists[NODES]))
            for node in list(self.api.lists[NODES]):
                self._tick(node["metadata"]["name"])
        if method == "DELETE" and path.startswith(f"{PODS}/mig-"):
            name = path.rpartition("/mig-")[2]
            self.managers[name] = _Manager()
            self.trouble.pop(name, None)
            self.log.append((name, "restart"))
            return 200, {"metadata": {"name": f"mig-{name}"}}
        return None

    def _tick(self, name: str) -> None:
        manager, config = self.managers[name], self.labels(name).get(CONFIG, "")
        if manager.run:
            manager.left -= 1
            if manager.left <= 0:
                self._end(name, manager)
        elif config != manager.read:
            manager.read = config
            if config:
                self._begin(name, manager, config)

    def _begin(self, name: str, manager: _Manager, config: str) -> None:
        if self.trouble.get(name) == "lost":
            del self.trouble[name]
            return
        if config not in LAYOUTS:
            self.label(name, {STATE: "failed"})
            return
        manager.run, manager.left = config, self.ticks
        self.log.append((name, config))
        paused = dict.fromkeys((f"{DEPLOY}device-plugin", f"{DEPLOY}dcgm-exporter"), PAUSED)
        self.label(name, {STATE: "pending", **paused})

    def _end(self, name: str, manager: _Manager) -> None:
        layout, trouble = manager.run, self.trouble.get(name, "")
        resumed = dict.fromkeys((f"{DEPLOY}device-plugin", f"{DEPLOY}dcgm-exporter"), "true")
        if trouble == "hangs":
            return
        manager.run = ""
        if trouble in ("stays-pending", "rebooting"):
            self.label(name, {STATE: "rebooting" if trouble == "rebooting" else "pending"})
        elif trouble in ("failed", "left-paused"):
            self.label(name, {STATE: "failed", **(resumed if trouble == "failed" else {})})
        else:
            if trouble != "wrong":
                self.offer(name, LAYOUTS[layout])
            self.label(name, {STATE: "success", **resumed})
