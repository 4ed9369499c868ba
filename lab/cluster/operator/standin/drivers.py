# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NVIDIADrivers: the owner of each node, refused specifications, and a DaemonSet for each pool of similar nodes."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass
from functools import reduce

from lab.cluster.operator.standin.images import KERNEL, OS_ID, OS_VERSION, ReconcileError, kernel_suffix, os_tag
from lab.cluster.operator.standin.lines import V26_7, Line
from lab.cluster.operator.standin.nodes import PRESENT, labels_of
from lab.cluster.operator.standin.operands import OPERANDS, Json
from lab.cluster.operator.standin.render import BUILT_IN_TOLERATION, Site, block, daemonset, hashed

COMPONENT = ("app.kubernetes.io/component", "nvidia-driver")
"""The label of driver pods and their DaemonSets, whichever object owns them."""
OWNER = "nvidia.com/gpu-operator.driver.owner"
_OS_MAJOR = f"{OS_VERSION}.major"
_DRIVER = OPERANDS[0]
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_NAME = 63
_OPEN_SINCE = (2, 17, 5)
"""The first version of GPUDirect Storage that requires open kernel modules."""
_UPGRADE_DEFAULTS: Json = {
    "autoUpgrade": True,
    "maxParallelUpgrades": 1,
    "maxUnavailable": "25%",
    "podDeletion": {},
    "drain": {},
    "waitForCompletion": {},
}
Problem = tuple[str, str]
"""The reason and the message of a condition."""


def delegated(policy_spec: Json) -> bool:
    """Return whether a ClusterPolicy leaves the driver to NVIDIADrivers."""
    return bool(block(policy_spec, "driver").get("useNvidiaDriverCRD"))


def upgrade_policy(driver: Json) -> Json:
    """Return the upgrade policy of an NVIDIADriver, with its defaults."""
    return {**_UPGRADE_DEFAULTS, **block(driver["spec"], "upgradePolicy")}


# ---- owners ---------------------------------------------------------------------------------------------------------


def selects(driver: Json, node: Json) -> bool:
    """Return whether a driver's selector matches a node. Without a selector, it matches every GPU node."""
    selector = driver["spec"].get("nodeSelector")
    labels = labels_of(node)
    wanted = {PRESENT: "true"} if selector is None else selector
    return all(labels.get(key) == value for key, value in wanted.items())


def conflict(driver: Json, drivers: t.Sequence[Json], nodes: t.Sequence[Json]) -> Problem | None:
    """Return the problem that all drivers have together; each of them reports it."""
    for item in (driver, *drivers):
        if OWNER in (item["spec"].get("nodeSelector") or {}):
            message = f'NVIDIADriver "{_name(item)}" nodeSelector cannot use reserved label "{OWNER}"'
            return "ConflictingNodeSelector", message
    defaults = _defaults(drivers)
    if len(defaults) > 1:
        return "ReconcileFailed", _too_many(defaults)
    return _overlap([item for item in drivers if not item["spec"].get("default")], nodes)


def _overlap(drivers: t.Sequence[Json], nodes: t.Sequence[Json]) -> Problem | None:
    """Return the first node that two drivers select, as a problem."""
    claims: dict[str, str] = {}
    for item, node in ((item, node) for item in drivers for node in nodes if selects(item, node)):
        first = claims.setdefault(_name(node), _name(item))
        if first != _name(item):
            return "ConflictingNodeSelector", _contested(_name(node), (first, _name(item)))
    return None


def clash(driver: Json, drivers: t.Sequence[Json], nodes: t.Sequence[Json]) -> Problem | None:
    """Return the problem of drivers that select the same node, as lines without owners report it of each driver."""
    seen: set[str] = set()
    for item in drivers:
        chosen = {_name(node) for node in nodes if selects(item, node)}
        if seen & chosen:
            pairs = (driver["spec"].get("nodeSelector") or {PRESENT: "true"}).items()
            selector = " ".join(f'"{key}":"{value}"' for key, value in sorted(pairs))
            found = f"conflicting NVIDIADriver NodeSelectors found for resource: {_name(driver)}"
            return "ConflictingNodeSelector", f"{found}, nodeSelector: map[{selector}]"
        seen |= chosen
    return None


def owners(drivers: t.Sequence[Json], nodes: t.Iterable[Json]) -> dict[str, str | None]:
    """Return the driver of each GPU node by name; None if no driver selects it. Raise if several drivers select one."""
    living = [driver for driver in drivers if not driver["metadata"].get("deletionTimestamp")]
    problem = conflict(living[0], living, ()) if living else None
    if problem:
        raise ReconcileError(problem[1])
    gpu_nodes = [node for node in nodes if labels_of(node).get(PRESENT) == "true"]
    return {_name(node): _owner(node, living) for node in gpu_nodes}


def _owner(node: Json, drivers: t.Sequence[Json]) -> str | None:
    wanting = [_name(driver) for driver in drivers if not driver["spec"].get("default") and selects(driver, node)]
    if len(wanting) > 1:
        raise ReconcileError(_contested(_name(node), wanting))
    return next(iter(wanting or _defaults(drivers)), None)


def _name(item: Json) -> str:
    return str(item["metadata"]["name"])


def _defaults(drivers: t.Iterable[Json]) -> list[str]:
    return sorted(_name(driver) for driver in drivers if driver["spec"].get("default"))


def _too_many(names: t.Sequence[str]) -> str:
    return f"multiple default NVIDIADrivers found: [{' '.join(names)}]"


def _contested(node: str, names: t.Iterable[str]) -> str:
    return f"multiple NVIDIADrivers match the same node {node}: [{' '.join(sorted(names))}]"


# ---- refused specifications -----------------------------------------------------------------------------------------


def unsupported(spec: Json) -> Problem | None:
    """Return the problem if settings of an NVIDIADriver contradict each other."""
    gds, gdrcopy = (block(spec, name) for name in ("gds", "gdrcopy"))
    if spec.get("usePrecompiled") and (gds.get("enabled") or gdrcopy.get("enabled")):
        what = "GPUDirect Storage driver (nvidia-fs) and/or GDRCopy driver"
        return "ReconcileFailed", f"{what} is not supported along with pre-compiled NVIDIA drivers"
    if gds.get("enabled") and _needs_open_modules(gds.get("version", "")) and spec.get("kernelModuleType") != "open":
        # NVIDIA's hint is outdated: the field has no effect, and kernelModuleType is the one to set.
        hint = "Please set 'useOpenKernelModules=true' to enable OpenRM mode"
        what = f"GPUDirect Storage driver '{gds.get('version', '')}'"
        return "ReconcileFailed", f"{what} is only supported with NVIDIA OpenRM drivers. {hint}"
    return None


def _needs_open_modules(version: str) -> bool:
    if version.startswith("sha256"):
        return True
    numbers = version.removeprefix("v").split("-")[0].split(".")
    return all(number.isdigit() for number in numbers) and tuple(map(int, numbers)) >= _OPEN_SINCE


# ---- pools ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pool:
    """Nodes that share a driver image."""

    os_tag: str
    kernel: str
    """The kernel of precompiled drivers; else empty."""
    selector: t.Mapping[str, str]


def pools(driver: Json, nodes: t.Iterable[Json], line: Line = V26_7) -> list[Pool]:
    """Return the pools of a driver's nodes. A node without the labels of Node Feature Discovery is in no pool."""
    owner = {OWNER: _name(driver)} if line.owners else {}
    base = {**(driver["spec"].get("nodeSelector") or {}), PRESENT: "true", **owner}
    found: dict[tuple[str, str], Pool] = {}
    for labels in map(labels_of, nodes):
        if all(labels.get(key) == value for key, value in base.items()):
            pool = _pool(labels, base, bool(driver["spec"].get("usePrecompiled")), line)
            if pool:
                found.setdefault((pool.os_tag, pool.kernel), pool)
    return [found[key] for key in sorted(found)]


def _pool(labels: t.Mapping[str, str], base: t.Mapping[str, str], precompiled: bool, line: Line) -> Pool | None:
    if not {OS_ID, OS_VERSION} <= labels.keys():
        return None
    tag = os_tag(labels, line)
    # Lines without owners select by the full version, also where the tag has only the major one.
    full = tag.endswith(labels[OS_VERSION]) or not line.owners
    keys = [OS_ID, OS_VERSION if full else _OS_MAJOR, *([KERNEL] if precompiled else [])]
    if not all(key in labels for key in keys):
        return None
    return Pool(tag, labels[KERNEL] if precompiled else "", {**base, **{key: labels[key] for key in keys}})


def daemonset_name(driver: Json, pool: Pool) -> str:
    """Return `nvidia-gpu-driver-ubuntu24.04-<hash>`, with a hash of the driver's uid and of a precompiled kernel."""
    prefix = f"nvidia-{driver['spec']['driverType']}-driver-{pool.os_tag}"
    source = "-".join(part for part in (driver["metadata"]["uid"], pool.kernel) if part)
    # The 32-bit FNV-1a hash, its digits mapped to the letters that Kubernetes uses in generated names.
    number = reduce(lambda value, byte: (value ^ byte) * 0x01000193 % 2**32, source.encode(), 0x811C9DC5)
    suffix = "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(number))
    return f"{prefix[: _LONGEST_NAME - len(suffix) - 1]}-{suffix}"


def account_name(driver: Json, pool: Pool) -> str:
    """Return the service account of a pool's pods."""
    kind = driver["spec"]["driverType"]
    prefix = "nvidia-vgpu-manager" if kind == "vgpu-host-manager" else f"nvidia-{kind}-driver"
    return f"{prefix}-{_name(driver)}-{pool.os_tag}"


def site(driver: Json, pool: Pool, namespace: str, env: t.Mapping[str, str]) -> Site:
    """Return a driver's spec in the shape of a ClusterPolicy's, so that the same code renders both."""
    spec = driver["spec"]
    common = {key: spec[key] for key in ("annotations", "priorityClassName", "podSecurityContext") if spec.get(key)}
    as_policy = {"driver": spec, "gds": block(spec, "gds"), "gdrcopy": block(spec, "gdrcopy"), "daemonsets": common}
    owner = {"metadata": driver["metadata"], "spec": as_policy}
    return Site(namespace, owner, env, pool.os_tag, {pool.kernel: pool.os_tag}, ("nvidia.com/v1alpha1", "NVIDIADriver"))


def driver_daemonset(driver: Json, pool: Pool, surroundings: Site) -> Json:
    """Return the DaemonSet of a pool: a ClusterPolicy's, with other names, labels, nodes and tolerations."""
    spec, name = driver["spec"], daemonset_name(driver, pool)
    made = _base_daemonset(pool, surroundings)
    labels = _labels(spec, name, pool)
    made["metadata"] |= {"name": name, "labels": {**labels, "nvidia.com/gpu-operator.state": "state-driver"}}
    made["spec"]["selector"] = {"matchLabels": {"app": name}}
    template = made["spec"]["template"]
    template["metadata"]["labels"] = labels
    pod = template["spec"]
    pod["serviceAccountName"] = account_name(driver, pool)
    operand = "vgpu-manager" if _is_vgpu_host(spec) else "driver"
    pod["nodeSelector"] = {f"nvidia.com/gpu.deploy.{operand}": "true", **pool.selector}
    # Unlike a ClusterPolicy's tolerations, those of an NVIDIADriver do not replace the built-in toleration.
    pod["tolerations"] = [BUILT_IN_TOLERATION, *(spec.get("tolerations") or [])]
    return hashed(made)


def _base_daemonset(pool: Pool, surroundings: Site) -> Json:
    try:
        made = daemonset(_DRIVER, surroundings, pool.kernel or None)
    except ReconcileError as error:
        step = "failed to create k8s objects from manifests: failed to construct driver spec"
        raise ReconcileError(f"{step}: {error}") from error
    if pool.kernel and "sha256:" in made["spec"]["template"]["spec"]["containers"][0]["image"]:
        raise ReconcileError("specifying image digest is not supported when precompiled is enabled")
    return made


def _labels(spec: Json, name: str, pool: Pool) -> Json:
    own = {
        key: value
        for key, value in block(spec, "labels").items()
        if key != "app" and not key.startswith("app.kubernetes.io/")
    }
    kernel = {"nvidia.com/precompiled.kernel-version": kernel_suffix(pool.kernel)} if pool.kernel else {}
    return {
        "app": name,
        COMPONENT[0]: "nvidia-vgpu-host-manager" if _is_vgpu_host(spec) else COMPONENT[1],
        "nvidia.com/node.os-version": pool.os_tag,
        "nvidia.com/precompiled": str(bool(spec.get("usePrecompiled"))).lower(),
        **kernel,
        **own,
    }


def _is_vgpu_host(spec: Json) -> bool:
    return bool(spec["driverType"] == "vgpu-host-manager")
