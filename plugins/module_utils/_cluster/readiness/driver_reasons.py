# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Reasons why the stack is not ready: NVIDIADriver objects, and driver images for another operating system.

The ClusterPolicy stays ready while NVIDIADrivers conflict: the operator then freezes all of them, and no new driver is
rolled out. Source: NVIDIA GPU Operator v26.7.0, ``internal/nvidiadriver`` and ``controllers``.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness import rollouts
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.node_reasons import Findings, NodeFinding
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.readiness.verdict import (
    Level,
    Observation,
    Reason,
    Reasons,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, nodes, objects, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

KIND = "NVIDIADriver"
SETTLED_S = 60
"""How long a wait must see an NVIDIADriver's error before it counts: an edit corrects one within seconds."""

_OS_TAG = re.compile(r"-(ubuntu|rhel|rhcos|ol|rocky|sles|sl-micro|debian)(\d+(?:\.\d+)*)$")
"""The end of a driver image's tag: the operating system that it is for."""


CONFLICT = "ConflictingNodeSelector"
_OF_ONE_DRIVER = "conflicting NVIDIADriver NodeSelectors found"
CONSEQUENCES = frozenset({"NoNVIDIADriver", "DriverNotReady", "OldImage", "StateNotReady"})
"""What follows from a conflict: the operator rolls out none of the drivers, and makes no DaemonSet of them."""


# NVIDIADriver objects


def about_conflicts(observation: Observation) -> Reasons:
    """Yield the conflicts of NVIDIADrivers that the operator reports, each once, with all that report it.

    A single reading believes a conflict that the objects show, too. A wait gives the operator time to see an edit.
    """
    if not operands.delegates_driver(observation.spec):
        return
    reporting: dict[str, list[str]] = {}
    for driver in observation.nvidiadrivers:
        code, cause = _error(driver)
        if _is_conflict(code, cause):
            # The operator v26.3 words one conflict differently for each NVIDIADriver: with its name and its selector.
            shared = _OF_ONE_DRIVER if cause.startswith(_OF_ONE_DRIVER) else cause
            reporting.setdefault(shared, []).append(objects.name_of(driver))
    is_settled = observation.waited_s > SETTLED_S if observation.waits else _overlap(observation)
    for cause, found in reporting.items():
        message = (
            f"NVIDIADriver {first_few(found)}: {cause}. The operator rolls them out after the conflict is resolved."
        )
        remedy = "Let each node match the nodeSelector of one NVIDIADriver only, and set default: true in at most one."
        yield Reason("failed" if is_settled else "progressing", CONFLICT, message, remedy, operands.DRIVER.name)


def _is_conflict(code: str, cause: str) -> bool:
    return code == CONFLICT or "multiple default" in cause


def _overlap(observation: Observation) -> bool:
    """Return whether the specs of the NVIDIADrivers contradict one another, as the operator sees it.

    Several are the default, or select the same node, or one selects by the label with which the operator itself notes
    whose a node is. A node without GPUs counts as well (``internal/validator/validator.go``).
    """
    drivers = observation.nvidiadrivers
    selectors = [_selector(item["spec"]) for item in drivers if not item["spec"].get("default")]
    shared = any(sum(nodes.matches(selector, node) for selector in selectors) > 1 for node in observation.nodes)
    reserved = any(names.DRIVER_OWNER in selector for selector in selectors)
    return shared or reserved or len(drivers) - len(selectors) > 1


def _selector(spec: Json) -> Json:
    """Return the labels of the nodes that an NVIDIADriver selects. Without a selector, these are all GPU nodes."""
    selector: Json | None = spec.get("nodeSelector")
    return {names.GPU_PRESENT: "true"} if selector is None else selector


def about_drivers(observation: Observation, held: t.Collection[str] = ()) -> Reasons:
    """Yield what the NVIDIADrivers report, and whether they run the images that they ask for.

    ``held`` are the DaemonSets with old pods on nodes that keep their driver. The operator counts these pods.
    """
    if not observation.nvidiadrivers:
        return
    if not operands.delegates_driver(observation.spec):
        found = first_few([objects.name_of(item) for item in observation.nvidiadrivers])
        message = f"The operator ignores the NVIDIADrivers ({found}), because driver.useNvidiaDriverCRD is not true."
        yield Reason("note", "IgnoredNVIDIADrivers", message, "Delete them, or set driver.useNvidiaDriverCRD: true.")
        return
    for driver in observation.nvidiadrivers:
        own = {objects.name_of(item) for item in observation.daemonsets if owner_of(item) == objects.name_of(driver)}
        yield from _about_status(driver, observation.waited_s, own <= set(held) and bool(own))
        yield from _about_image(driver, observation.daemonsets)


def _about_status(driver: Json, waited_s: float, is_held: bool) -> Reasons:
    name, state = objects.name_of(driver), (driver.get("status") or {}).get("state")
    code, cause = _error(driver)
    cause = cause or f"state is {state or 'not set yet'}"
    if _is_conflict(code, cause):
        return  # about_conflicts
    if code == "ReconcileFailed":
        message = f"The operator cannot reconcile NVIDIADriver {name}: {cause}."
        yield Reason(_settled(waited_s), "DriverNotReconciled", message, "Correct what it names.", operands.DRIVER.name)
    elif state != "ready":
        message = f"The operator does not report NVIDIADriver {name} as ready: {cause}."
        is_hold = is_held and code in ("", "DriverNotReady")
        yield Reason("note" if is_hold else "progressing", "DriverNotReady", message, operand=operands.DRIVER.name)


def _error(driver: Json) -> tuple[str, str]:
    """Return the reason and the message of an NVIDIADriver's error, or empty strings."""
    conditions = (driver.get("status") or {}).get("conditions") or []
    error: Json = next((item for item in conditions if item["type"] == "Error" and item["status"] == "True"), {})
    return error.get("reason") or "", error.get("message") or ""


def _settled(waited_s: float) -> Level:
    return "failed" if waited_s > SETTLED_S else "progressing"


def _about_image(driver: Json, daemonsets: list[Json]) -> Reasons:
    """Yield a reason for each DaemonSet of the driver with a different image from that in its spec."""
    name, wanted = objects.name_of(driver), operands.image_of(driver["spec"])
    for daemonset in daemonsets:
        running = _image(daemonset) if owner_of(daemonset) == name else ""
        is_wanted = running == wanted or _name(running).startswith(f"{_name(wanted or '')}-")
        if wanted and running and not is_wanted:
            message = f"NVIDIADriver {name}: the operator still runs {running} instead of {wanted}."
            yield Reason("progressing", "OldImage", message, operand=operands.DRIVER.name)


def _name(image: str) -> str:
    """Return an image without its registry and folders, which a mirror may replace."""
    return image.rpartition("/")[2]


def owner_of(daemonset: Json) -> str | None:
    """Return the name of the NVIDIADriver to which a DaemonSet belongs, or None."""
    owners = daemonset["metadata"].get("ownerReferences") or []
    return next((str(owner["name"]) for owner in owners if owner.get("kind") == KIND), None)


def replaces_pods(observation: Observation, daemonset: Json) -> bool:
    """Return whether the operator replaces outdated pods of this driver DaemonSet."""
    owner = owner_of(daemonset)
    driver = next((item["spec"] for item in observation.nvidiadrivers if objects.name_of(item) == owner), None)
    return operands.replaces_driver_pods(observation.spec, driver)


# Nodes


def about_nodes(observation: Observation, gpu_nodes: list[Json]) -> Findings:
    """Yield the nodes that no NVIDIADriver selects, and those whose driver image is for another system."""
    if operands.delegates_driver(observation.spec) and observation.nvidiadrivers:
        uncovered = [node for node in gpu_nodes if _wants_driver(node) and not _is_covered(node, observation)]
        what = "no NVIDIADriver selects them, so they get no driver"
        remedy = "Create an NVIDIADriver whose nodeSelector they match, or one with default: true."
        yield NodeFinding("progressing", "NodesWithoutDriver", uncovered, what, remedy, operands.DRIVER.name)
    for daemonset in observation.daemonsets:
        if operands.operand_name(daemonset) == operands.DRIVER.name:
            yield from _about_system(daemonset, rollouts.nodes_of(daemonset, gpu_nodes))


def _wants_driver(node: Json) -> bool:
    return objects.labels_of(node).get(operands.DRIVER.deploy_label) == "true"


def _is_covered(node: Json, observation: Observation) -> bool:
    """Return whether an NVIDIADriver selects the node. One without a selector takes all, or as default the others."""
    return any(nodes.matches(item["spec"].get("nodeSelector"), node) for item in observation.nvidiadrivers)


def _about_system(daemonset: Json, on: list[Json]) -> Findings:
    image = _image(daemonset)
    found = _OS_TAG.search(image)
    misfits = [node for node in on if found and not _fits(found[1], found[2], node)]
    if found and misfits:
        system = "".join(nodes.os_of(misfits[0]))
        what = f"driver image {image} is for {found[1]}{found[2]}, but {objects.name_of(misfits[0])} runs {system}"
        remedy = (
            "Give each operating system its own NVIDIADriver (driver.useNvidiaDriverCRD: true), "
            "or install the driver on these hosts."
        )
        yield NodeFinding("failed", "DriverImageMisfit", misfits, what, remedy, operands.DRIVER.name)


def _fits(system: str, version: str, node: Json) -> bool:
    """Return whether an image for a system fits a node. A major release is enough, except for Ubuntu's."""
    node_system, node_version = nodes.os_of(node)
    if names.OS_ID not in objects.labels_of(node):
        return True
    majors = (version.split(".", maxsplit=1)[0], node_version.split(".")[0])
    return system == node_system and (version == node_version or (system != "ubuntu" and majors[0] == majors[1]))


def _image(daemonset: Json) -> str:
    """Return the image of a driver DaemonSet's own container, or an empty string."""
    containers: t.Iterable[Json] = daemonset["spec"]["template"]["spec"]["containers"]
    return next((str(item["image"]) for item in containers if item["name"] == operands.DRIVER.container), "")
