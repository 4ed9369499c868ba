# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the fleet's nodes look like on the page: their state, their GPUs, and who uses them. Pure."""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import device_health, names
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json
from ansible_collections.gpuops.nvidia.plugins.plugin_utils import _devices
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._devices import Devices
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._report import bars, usage
from ansible_collections.gpuops.nvidia.plugins.plugin_utils._report.texts import short

PODS_LISTED = 40
"""How many pods of a node are listed."""


@dataclasses.dataclass(frozen=True)
class State:
    """What a node is doing. The sign tells the states apart without colours."""

    key: str
    title: str
    sign: str
    about: str


NODE_STATES = {
    state.key: state
    for state in (
        State("bad", "Failing", "\u00d7", "The node cannot run new GPU pods, or a cause of failures was found on it."),
        State("warn", "In service, with a warning", "!", "The node runs GPU pods, and something about it is odd."),
        State("work", "Changing", "~", "A driver upgrade or a change of MIG is under way."),
        State("out", "Out of service", "\u2013", "The node is cordoned."),
        State("left", "Not judged", "?", "The node is left out, for example because its operands are switched off."),
        State("ok", "In service", "", "The node can run GPU pods."),
    )
}
"""The states, the most urgent first."""


@dataclasses.dataclass(frozen=True)
class Holder:
    """A pod that holds GPUs."""

    namespace: str
    name: str
    gpus: str


@dataclasses.dataclass(frozen=True)
class Node:
    """A GPU node as the page shows it."""

    number: int
    name: str
    state: State
    why: str
    product: str
    driver: str
    kernel: str
    os: str
    runtime: str
    bars: tuple[bars.Bar, ...]
    counts: str
    pods: tuple[Holder, ...]
    more_pods: int
    findings: tuple[int, ...]
    """The numbers of the findings on it."""
    notes: tuple[tuple[str, str], ...]
    """What else is known of it, as pairs of a name and a text."""
    firmware: tuple[tuple[str, str], ...]


def nodes_of(data: Json) -> list[Node]:
    """Return the nodes of the fleet, in the order of their names. ``data`` is the module's result."""
    on_node: dict[str, list[int]] = collections.defaultdict(list)
    for number, finding in enumerate(data["findings"]):
        for name in finding["nodes"]:
            on_node[name].append(number)
    holders: dict[str, list[Json]] = collections.defaultdict(list)
    for pod in data["pods"]:
        holders[pod["node"]].append(pod)
    return [
        _node(number, row, data, on_node[row["name"]], holders[row["name"]])
        for number, row in enumerate((data["stack"] or {}).get("nodes") or [])
    ]


def _node(number: int, row: Json, data: Json, found: t.Sequence[int], pods: t.Sequence[Json]) -> Node:
    findings = [data["findings"][index] for index in found]
    gpus = (data["hosts"].get(row["name"]) or {}).get("gpus") or []
    key, why = state_of(row, findings)
    listed = sorted(pods, key=lambda pod: (pod["namespace"], pod["name"]))
    return Node(
        number=number,
        name=short(row["name"]),
        state=NODE_STATES[key],
        why=short(why),
        product=model(row),
        driver=short(row["driver"] or ""),
        kernel=short(row["kernel"] or ""),
        os=short(row["os"] or ""),
        runtime=short(row["runtime"] or ""),
        bars=tuple(bars.bars(row, gpus)),
        counts=counts(row),
        pods=tuple(
            Holder(short(pod["namespace"]), short(pod["name"]), held(pod["gpus"])) for pod in listed[:PODS_LISTED]
        ),
        more_pods=max(0, len(listed) - PODS_LISTED),
        findings=tuple(found),
        notes=tuple(_notes(row, usage.of_node(data, row["name"]))),
        firmware=tuple(_firmware(gpus)),
    )


def model(row: Json) -> str:
    """Return the model of a node's GPUs as people say it."""
    product = str(row["product"] or "").removeprefix("NVIDIA-").partition("-MIG-")[0].removesuffix("-SHARED")
    return short(product.replace("-", " ")) or "GPU of unknown model"


def state_of(row: Json, findings: t.Sequence[Json]) -> tuple[str, str]:
    """Return the key of a node's state, and why it is in it."""
    worst = next((each for level in ("failure", "warning") for each in findings if each["severity"] == level), None)
    if worst and worst["severity"] == "failure":
        return "bad", worst["title"]
    if row["left_out"]:
        return "left", row["left_out"]
    return _service(row) or (("warn", worst["title"]) if worst else ("ok", ""))


def _service(row: Json) -> tuple[str, str] | None:
    """Return why a node does not serve, or None if it does."""
    if (row["upgrade_state"] or "") not in names.UPGRADE_ENDED:
        return "work", f"The driver's upgrade is at {row['upgrade_state']}."
    if row["mig"]["state"] in names.MIG_CHANGING:
        return "work", f"The change of MIG is {row['mig']['state']}."
    if not row["ready"]:
        return "bad", "The node is not ready."
    if row["waiting_for"]:
        return "bad", "; ".join(f"{operand}: {status}" for operand, status in sorted(row["waiting_for"].items()))
    if not row["claimable"] and not any(part["allocatable"] for part in row["slices"]):
        return "bad", "No GPU can be allocated."
    return ("out", "The node is cordoned.") if row["cordoned"] else None


def counts(row: Json) -> str:
    """Return how many devices of each resource pods hold: ``3 of 8``, ``5 of 14 mig-1g.10gb``."""
    found = [" ".join(filter(None, [_number(each), _kind(each, row)])) for each in _devices.of_node(row)]
    missing = sum(max(0, part["expected"] - part["allocatable"]) for part in row["slices"])
    text = ", ".join(found) or ("by claims" if row["claimable"] else "none")
    return f"{text} ({missing} missing)" if missing else text


def _number(each: Devices) -> str:
    return f"{each.offered}" if each.held is None else f"{each.held} of {each.offered}"


def _kind(each: Devices, row: Json) -> str:
    """Return what the devices are, unless they are whole GPUs."""
    if each.resource != names.GPU_RESOURCE:
        return short(each.short)
    return "shares" if (row["replicas"] or 1) > 1 else ""


def held(gpus: t.Mapping[str, int]) -> str:
    """Return what a pod holds: ``2``, ``1 x mig-1g.10gb``."""
    short_names = ((name.removeprefix("nvidia.com/"), number) for name, number in sorted(gpus.items()))
    return ", ".join(str(number) if name == "gpu" else f"{number} x {short(name)}" for name, number in short_names)


def _notes(row: Json, used: str) -> t.Iterator[tuple[str, str]]:
    sharing, mig, sick = row["sharing"], row["mig"], device_health.sick_text(row)
    if sick:
        yield "Unhealthy", short(sick)
    if used:
        yield "Utilisation", used
    if sharing["strategy"] not in (None, "none"):
        yield "Sharing", short(f"{sharing['strategy']}, {row['replicas']} pods for each GPU")
    if mig["config"] and mig["config"] != names.MIG_DISABLED:
        yield "MIG", short(f"{mig['config']} ({mig['state'] or 'not reported yet'})")
    if row["upgrade_state"] and row["upgrade_state"] != names.UPGRADE_DONE:
        yield "Upgrade", short(row["upgrade_state"])
    if row["taints"]:
        yield "Taints", short(", ".join(row["taints"]))


def _firmware(gpus: t.Sequence[Json]) -> t.Iterator[tuple[str, str]]:
    """Yield the versions of the GPUs' firmware. A node normally has one of each."""
    for name, field in (("VBIOS", "vbios"), ("infoROM", "inforom"), ("GSP firmware", "gsp")):
        found = collections.Counter(short(gpu[field]) for gpu in gpus if gpu.get(field))
        if found:
            single = len(found) == 1
            yield name, ", ".join(text if single else f"{text} ({n})" for text, n in found.most_common())
