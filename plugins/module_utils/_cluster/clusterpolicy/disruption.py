# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which changes of a ClusterPolicy interrupt GPU workloads. Pure.

Source: ``controllers/object_controls.go`` of the GPU Operator v25.10.1, v26.3.3 and v26.7.0 (what becomes part of the
template of the pods of the driver, the toolkit and the MIG manager), ``internal/config/driver_config_digest.go`` of
v26.7.0 (what makes the driver reload), and its upgrade library (what an upgrade evicts).
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator import operator_lines
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Version = tuple[int, int]

IN_PLACE: Version = operator_lines.first_with("restarts_in_place")
"""From this operator on, a change that does not concern the driver itself restarts its pods without evictions."""

EVICTS = "the operator evicts GPU pods and replaces the driver, node by node"
REMOVES_DRIVER = "the operator removes the driver from under GPU pods"
RESTARTS_RUNTIME = "the toolkit reconfigures and restarts the container runtime of each node"
STARTS_MANAGERS = "the MIG managers start again, and divide GPUs whose layout was never applied"
"""It concerns few nodes. Which, only the cluster tells: see ``mig_managers.py``."""


@dataclasses.dataclass(frozen=True)
class Interruption:
    """A field whose new value interrupts GPU workloads on the nodes that run ``operand``.

    ``driver`` is the NVIDIADriver that has the field, if it is none of the ClusterPolicy. It concerns its own nodes.
    ``nodes`` are the nodes that it concerns, if it is not each that runs the operand.
    """

    field: str
    before: t.Any
    after: t.Any
    effect: str
    operand: str = operands.DRIVER.name
    driver: str = ""
    nodes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Operator:
    """The operator's version now, and when it acts on the change. None is unknown, and counts as an old one.

    ``outdated`` says whether driver pods wait for their replacement, as they do while ``autoUpgrade`` is off.
    ``toolkit_outdated`` and ``managers_outdated`` say whether pods of the toolkit and of the MIG manager do, as with
    ``OnDelete``.
    ``images`` are the operator's images now and then, if both are known. They count where a version is unknown.
    """

    running: Version | None = None
    acting: Version | None = None
    outdated: bool = False
    toolkit_outdated: bool = False
    managers_outdated: bool = False
    images: tuple[str, str] | None = None


Changes = t.Iterator[Interruption]


def line(text: str | None) -> Version | None:
    """Return the line of the operator's release that a text names: ``v26.7.0`` is ``(26, 7)``."""
    found = operands.release(text)
    return found[:2] if found else None


def changes(before: Json, after: Json, operator: Operator) -> list[Interruption]:
    """Return what in the change from one whole spec to the other interrupts GPU workloads."""
    toolkit = of_toolkit(before, after, operator.toolkit_outdated)
    driver, managers = _of_driver(before, after, operator), _of_managers(before, after, operator)
    return [*driver, *toolkit, *_of_workload(before, after), *managers]


# The driver


_NO_EFFECT = ("driver.upgradePolicy", "driver.useOpenKernelModules", "driver.enabled", "driver.useNvidiaDriverCRD")
"""Fields of the driver that no pod's template contains, or that have their own rule."""

PULL = ("imagePullPolicy", "imagePullSecrets")
_COSMETIC = (
    *(f"driver.{field}" for field in ("resources", "startupProbe", "livenessProbe", "readinessProbe", "hostNetwork")),
    *(f"{block}.{field}" for block in ("driver", "driver.manager", *operands.SIBLINGS) for field in PULL),
    *(f"{block}.args" for block in operands.SIBLINGS),
    "daemonsets",
)
"""Fields in the template of the driver's pods with which the driver is not reloaded, from v26.7 on."""

_NOT_IN_THE_TEMPLATE = ("daemonsets.updateStrategy", "daemonsets.rollingUpdate", "hostPaths.kubeletRootDir")

_DRIVER_BLOCKS = ("driver", *operands.SIBLINGS, "hostPaths", "daemonsets")


def _of_driver(before: Json, after: Json, operator: Operator) -> Changes:
    if delegates(before) != delegates(after):
        yield _change(before, after, "driver.useNvidiaDriverCRD", EVICTS if delegates(after) else REMOVES_DRIVER)
    elif _is_on(before, "driver") and not _is_on(after, "driver"):
        yield _change(before, after, "driver.enabled", REMOVES_DRIVER)
    elif operands.enabled(operands.DRIVER, before) and operands.replaces_driver_pods(after):
        yield from _of_driver_pods(before, after, operator)


def _of_driver_pods(before: Json, after: Json, operator: Operator) -> Changes:
    """Yield what makes the operator replace driver pods by itself."""
    if operator.outdated and not operands.replaces_driver_pods(before):
        yield _change(before, after, "driver.upgradePolicy.autoUpgrade", EVICTS)
    always_evicts = min(operator.running or (0, 0), operator.acting or (0, 0)) < IN_PLACE
    if always_evicts:
        yield from of_version(operator)
    for field in differing(before, after, _DRIVER_BLOCKS):
        if _is_in_driver_pods(field, before, after) and (always_evicts or not starts_with(field, _COSMETIC)):
            yield _change(before, after, field, EVICTS)


def of_version(operator: Operator, effect: str = EVICTS, operand: str = operands.DRIVER.name) -> Changes:
    """Yield the operator's own new version, if it renders new pods for an operand."""
    if operator.running and operator.acting:
        if operator.running != operator.acting:
            yield Interruption("operator", _line(operator.running), _line(operator.acting), effect, operand)
    elif operator.images and operator.images[0] != operator.images[1]:
        yield Interruption("operator image", *operator.images, effect, operand)


def _line(found: Version) -> str:
    return f"v{found[0]}.{found[1]}"


def _is_in_driver_pods(field: str, before: Json, after: Json) -> bool:
    block = field.partition(".")[0]
    if block in operands.SIBLINGS:
        return any(bool((spec.get(block) or {}).get("enabled")) for spec in (before, after))
    return not starts_with(field, (*_NO_EFFECT, *_NOT_IN_THE_TEMPLATE))


def delegates(spec: Json) -> bool:
    """Return whether NVIDIADriver objects determine the driver."""
    return _is_on(spec, "driver") and bool((spec.get("driver") or {}).get("useNvidiaDriverCRD"))


# The toolkit, which configures the container runtime


_TOOLKIT_COSMETIC = tuple(f"toolkit.{field}" for field in ("enabled", "resources", "hostNetwork", *PULL))
_RUNTIME_FIELDS = ("cdi.enabled", "cdi.nriPluginEnabled", "operator.runtimeClass", "operator.defaultRuntime")


def of_toolkit(before: Json, after: Json, outdated: bool) -> list[Interruption]:
    """Return what makes the toolkit configure the runtime anew. ``outdated`` says whether pods of it wait for that."""
    return list(_of_toolkit(before, after, outdated))


def _of_toolkit(before: Json, after: Json, outdated: bool) -> Changes:
    was_on, is_on = _is_on(before, "toolkit"), _is_on(after, "toolkit")
    if was_on != is_on:
        yield _change(before, after, "toolkit.enabled", RESTARTS_RUNTIME, operands.TOOLKIT.name)
    elif is_on and not _waits(after):
        for field in differing(before, after, ("toolkit", "cdi", "operator")):
            if starts_with(field, ("toolkit", *_RUNTIME_FIELDS)) and not starts_with(field, _TOOLKIT_COSMETIC):
                yield _change(before, after, field, RESTARTS_RUNTIME, operands.TOOLKIT.name)
        if outdated and _waits(before):
            yield _change(before, after, "daemonsets.updateStrategy", RESTARTS_RUNTIME, operands.TOOLKIT.name)


def _waits(spec: Json) -> bool:
    """Return whether pods of all operands are replaced only when somebody deletes them."""
    return (spec.get("daemonsets") or {}).get("updateStrategy") == "OnDelete"


# The MIG managers, which apply the layout of their node when they start


_IN_MANAGER_PODS = (
    "migManager",
    *(f"validator.{field}" for field in ("repository", "image", "version", *PULL, "resources", "toolkit.env")),
    *("daemonsets", "hostPaths.rootFS", "hostPaths.driverInstallDir"),
    *("cdi.enabled", "cdi.nriPluginEnabled", "operator.runtimeClass"),
)
"""What the template of their pods contains: the validator is their init container, its resources from v26.7 on."""

_NOT_IN_MANAGER_PODS = ("migManager.enabled", "migManager.config.default", *_NOT_IN_THE_TEMPLATE)
_LABELS_OF_THE_OPERATOR = ("daemonsets.labels.app", "daemonsets.labels.app.kubernetes.io/part-of")
_MANAGER_BLOCKS = ("migManager", "validator", "daemonsets", "hostPaths", "cdi", "operator")


def _of_managers(before: Json, after: Json, operator: Operator) -> Changes:
    """Yield what starts the MIG managers. With ``OnDelete``, that is their first installation only."""
    managers = STARTS_MANAGERS, operands.MIG_MANAGER.name
    if not _is_on(after, "migManager"):
        return
    if not _is_on(before, "migManager"):
        yield _change(before, after, "migManager.enabled", *managers)
    elif not _waits(after):
        yield from of_version(operator, *managers)
        fields = filter(_is_in_manager_pods, differing(before, after, _MANAGER_BLOCKS))
        for field in (*fields, *_of_cdi_hook(before, after)):
            yield _change(before, after, field, *managers)
        if operator.managers_outdated and _waits(before):
            yield _change(before, after, "daemonsets.updateStrategy", *managers)


def _is_in_manager_pods(field: str) -> bool:
    if starts_with(field, _NOT_IN_MANAGER_PODS) or field in _LABELS_OF_THE_OPERATOR:
        return False
    return starts_with(field, _IN_MANAGER_PODS)


def _of_cdi_hook(before: Json, after: Json) -> t.Iterator[str]:
    """Yield what moves the toolkit's program for CDI, whose path the managers get. Without CDI, they get none."""
    if _is_on(before, "cdi") and _is_on(after, "cdi"):
        if _is_on(before, "toolkit") != _is_on(after, "toolkit"):
            yield "toolkit.enabled"
        elif _is_on(after, "toolkit"):
            yield from (field for field in differing(before, after, ["toolkit"]) if field == "toolkit.installDir")


# Virtual machines


def _of_workload(before: Json, after: Json) -> Changes:
    """Yield a new kind of workload for the nodes without a label that chooses one: VM nodes run no driver for
    containers."""
    if _workload(before) != _workload(after) and _workload(before) == "container":
        enabled = (before.get("sandboxWorkloads") or {}).get("enabled")
        field = "defaultWorkload" if enabled else "enabled"
        yield _change(before, after, f"sandboxWorkloads.{field}", REMOVES_DRIVER)


def _workload(spec: Json) -> str:
    block = spec.get("sandboxWorkloads") or {}
    return str(block.get("defaultWorkload") or "container") if block.get("enabled") else "container"


# Comparing specs


def _is_on(spec: Json, block: str) -> bool:
    """Return whether a component whose default is on is enabled."""
    return (spec.get(block) or {}).get("enabled") is not False


_DEFAULTS: Json = {
    "driver.kernelModuleType": "auto",
    "cdi.enabled": True,
    "operator.runtimeClass": "nvidia",
    "operator.defaultRuntime": "docker",
    "toolkit.installDir": "/usr/local/nvidia",
    "hostPaths.rootFS": "/",
    "hostPaths.driverInstallDir": "/run/nvidia/driver",
}
"""What an absent field means. For others, an empty value and a missing one mean the same."""


def differing(before: Json, after: Json, blocks: t.Iterable[str] | None = None) -> t.Iterator[str]:
    """Yield the fields that differ, in these blocks or in all. Lists count as one field."""
    for block in sorted({*before, *after}) if blocks is None else blocks:
        yield from _leaves(before.get(block), after.get(block), block)


def _leaves(before: t.Any, after: t.Any, path: str) -> t.Iterator[str]:
    if isinstance(before, dict) or isinstance(after, dict):
        old, new = (value if isinstance(value, dict) else {} for value in (before, after))
        for key in sorted({*old, *new}):
            yield from _leaves(old.get(key), new.get(key), f"{path}.{key}")
    elif _meaning(path, before) != _meaning(path, after):
        yield path


def _meaning(path: str, value: t.Any) -> t.Any:
    """Return a value, or None for one that means the same as an absent field. A number always means something."""
    if value is None:
        return _DEFAULTS.get(path)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if value or is_number else None


def starts_with(field: str, prefixes: t.Iterable[str]) -> bool:
    """Return whether a field is one of these, or inside one of them."""
    return any(f"{field}.".startswith(f"{prefix}.") for prefix in prefixes)


def _change(before: Json, after: Json, field: str, effect: str, operand: str = operands.DRIVER.name) -> Interruption:
    return Interruption(field, at(before, field), at(after, field), effect, operand)


def at(spec: Json, field: str) -> t.Any:
    """Return the value at a dotted path. Keys of labels and annotations contain dots themselves."""
    value: t.Any = spec
    rest = field
    while rest and isinstance(value, dict):
        key = next((key for key in sorted(value, key=len, reverse=True) if f"{rest}.".startswith(f"{key}.")), None)
        if key is None:
            return None
        value, rest = value[key], rest[len(key) + 1 :]
    return value
