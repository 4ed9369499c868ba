# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""A driver's settings in the words of the ClusterPolicy and in those of an NVIDIADriver. Pure.

The two kinds spell some fields differently. Source: ``api/nvidia/v1/clusterpolicy_types.go`` and
``api/nvidia/v1alpha1/nvidiadriver_types.go`` of the GPU Operator v26.7.0, and its chart's template of the default
NVIDIADriver (what is carried over).
"""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import ownership
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy.spec import block_of, field_name
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Settings = t.Mapping[str, t.Any]
"""The settings of a driver that have a value, by the names of their options."""

_SPELT_DIFFERENTLY = (
    # option, below spec.driver of a ClusterPolicy, below spec of an NVIDIADriver
    ("repo_config", "repoConfig.configMapName", "repoConfig.name"),
    ("virtual_topology", "virtualTopology.config", "virtualTopologyConfig.name"),
    ("cert_config", "certConfig.name", "certConfig.name"),
    ("kernel_module_config", "kernelModuleConfig.name", "kernelModuleConfig.name"),
    ("licensing.secret_name", "licensingConfig.secretName", "licensingConfig.secretName"),
    ("licensing.config_map", "licensingConfig.configMapName", "licensingConfig.name"),
    ("licensing.nls_enabled", "licensingConfig.nlsEnabled", "licensingConfig.nlsEnabled"),
)
_APART = ("branch", "spec", "licensing", "repo_config", "virtual_topology", "cert_config", "kernel_module_config")


def policy_spec(settings: Settings) -> Json:
    """Return the part of a ClusterPolicy's spec that the settings ask for: siblings stand beside the driver there."""
    plain = _plain(settings)
    driver = {key: value for key, value in plain.items() if key not in operands.SIBLINGS}
    for option, path, dummy in _SPELT_DIFFERENTLY:
        driver = _with(driver, path, _option(settings, option))
    driver = _merged(driver, settings.get("spec") or {}, "spec")
    made = {key: plain[key] for key in operands.SIBLINGS if key in plain}
    return {**made, **({"driver": driver} if driver else {})}


def driver_spec(settings: Settings) -> Json:
    """Return the part of an NVIDIADriver's spec that the settings ask for."""
    made = _plain(settings)
    for option, dummy, path in _SPELT_DIFFERENTLY:
        made = _with(made, path, _option(settings, option))
    return _merged(made, settings.get("spec") or {}, "spec")


def of_pool(common: Settings, own: Settings) -> Json:
    """Return the settings of one pool: its own, and for the rest those of all pools."""
    if {"version", "branch"} & own.keys():
        common = {key: value for key, value in common.items() if key not in ("version", "branch")}
    return ownership.merged(dict(common), dict(own))


def _plain(settings: Settings) -> Json:
    """Return the settings that both kinds spell in the same way."""
    chosen = {key: value for key, value in settings.items() if key not in _APART}
    made = {field_name(key): block_of(value) if isinstance(value, dict) else value for key, value in chosen.items()}
    return {**made, "version": settings["branch"]} if settings.get("branch") else made


def _option(settings: Settings, path: str) -> t.Any:
    block, dummy, name = path.partition(".")
    value = settings.get(block)
    return (value or {}).get(name) if name else value


def _with(spec: Json, path: str, value: t.Any) -> Json:
    """Return a spec with a value at a dotted path. None changes nothing."""
    if value is None:
        return spec
    head, dummy, rest = path.partition(".")
    return {**spec, head: _with(spec.get(head) or {}, rest, value) if rest else value}


def _merged(typed: Json, free: Json, path: str) -> Json:
    """Merge options into what is given in the API's spelling. One field with two values is an error."""
    for key in typed.keys() & free.keys():
        if isinstance(typed[key], dict) and isinstance(free[key], dict):
            _merged(typed[key], free[key], f"{path}.{key}")
        elif typed[key] != free[key]:
            message = f"{path}.{key} is {free[key]!r}, but its own option says {typed[key]!r}. Set it in one place."
            raise GpuOpsError(message, reason="Invalid")
    return {**free, **{key: _inner(free.get(key), value) for key, value in typed.items()}}


def _inner(free: t.Any, typed: t.Any) -> t.Any:
    return _merged(typed, free, "") if isinstance(free, dict) and isinstance(typed, dict) else typed


# ---- from one kind to the other -----------------------------------------------------------------------------------

_SAME = (
    *("repository", "image", "version", "imagePullPolicy", "imagePullSecrets", "kernelModuleType", "usePrecompiled"),
    *("rdma", "env", "args", "resources", "manager", "secretEnv", "upgradePolicy", "hostNetwork"),
    *("startupProbe", "livenessProbe", "readinessProbe"),
)
"""Fields of a driver that both kinds spell in the same way."""
_OF_DAEMONSETS = ("tolerations", "annotations", "priorityClassName", "podSecurityContext")
"""Fields that a ClusterPolicy has for all operands, and that an NVIDIADriver does not inherit."""


def as_driver(policy: Json) -> Json:
    """Return a ClusterPolicy's driver in the words of an NVIDIADriver, with all that its pods have now."""
    driver, daemonsets = policy.get("driver") or {}, policy.get("daemonsets") or {}
    made = {key: driver[key] for key in _SAME if _is_set(driver.get(key))}
    for dummy, old, new in _SPELT_DIFFERENTLY:
        made = _with(made, new, _at(driver, old) or None)
    if "licensingConfig" in made:
        # Without a value, it is off in a ClusterPolicy and on in an NVIDIADriver.
        made = _with(made, "licensingConfig.nlsEnabled", bool(_at(driver, "licensingConfig.nlsEnabled")))
    made |= {key: policy[key] for key in operands.SIBLINGS if (policy.get(key) or {}).get("enabled")}
    made |= {key: daemonsets[key] for key in _OF_DAEMONSETS if _is_set(daemonsets.get(key))}
    # Without a value, upgrades are off in a ClusterPolicy and on in an NVIDIADriver.
    return {"upgradePolicy": {"autoUpgrade": False}, **made}


def as_policy(driver: Json) -> Json:
    """Return an NVIDIADriver in the words of a ClusterPolicy, for the way back."""
    made = {key: driver[key] for key in _SAME if _is_set(driver.get(key))}
    for dummy, old, new in _SPELT_DIFFERENTLY:
        made = _with(made, old, _at(driver, new))
    own = made.get("upgradePolicy") or {}
    # What an NVIDIADriver leaves out has a default of its own. A ClusterPolicy without these blocks gets stuck.
    blocks: Json = {"waitForCompletion": {}, "podDeletion": {}, "drain": {}}
    made["upgradePolicy"] = {"autoUpgrade": True, "maxParallelUpgrades": 1, "maxUnavailable": "25%", **blocks, **own}
    beside = {key: driver[key] for key in operands.SIBLINGS if driver.get(key)}
    return {"driver": made, **beside}


def _is_set(value: t.Any) -> bool:
    return value is not None and value not in ("", [], {})


def _at(spec: Json, path: str) -> t.Any:
    value: t.Any = spec
    for key in path.split("."):
        value = (value or {}).get(key)
    return value
