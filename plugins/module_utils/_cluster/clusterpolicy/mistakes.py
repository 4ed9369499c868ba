# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Mistakes in a spec that the API server accepts, each with the right field. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import names, operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


def refuse_wrong_fields(spec: Json) -> None:
    """Raise for a field that does not exist or has no effect, and name the right one. ``spec`` is what the user
    gave."""
    for problem in (*_driver_fields(spec.get("driver") or {}), *_other_fields(spec)):
        raise GpuOpsError(problem, reason="Invalid")


def refuse_contradictions(spec: Json) -> None:
    """Raise for settings that the API server accepts but the operator later refuses or gets stuck on.

    ``spec`` is the whole spec, with the defaults and the fields that other managers have set.
    """
    for check in (_upgrade_policy, _nri, _precompiled, _images):
        for problem in check(spec):
            raise GpuOpsError(problem, reason="Invalid")


def warnings(spec: Json) -> list[str]:
    """Return a sentence for each setting that is allowed but seldom intended."""
    found = []
    daemonsets = spec.get("daemonsets") or {}
    if daemonsets.get("updateStrategy") == "OnDelete":
        found.append(
            "daemonsets.updateStrategy is OnDelete: operands are updated only when somebody deletes their pods."
        )
    tolerations = daemonsets.get("tolerations")
    if tolerations and not any(item.get("key") in (None, "", names.GPU_RESOURCE) for item in tolerations):
        found.append(
            "daemonsets.tolerations replaces the operator's own toleration of nvidia.com/gpu:NoSchedule "
            "and does not list it."
        )
    driver = spec.get("driver") or {}
    if driver.get("usePrecompiled") and "." in str(driver.get("version", "")):
        found.append(
            f"driver.version is {driver['version']!r}: "
            "with usePrecompiled it is the driver branch alone, for example 595."
        )
    return found + list(_settings_of_the_manager(driver))


_INSTEAD_OF_MANAGER = {
    "ENABLE_AUTO_DRAIN": "drain.enable",
    "DRAIN_USE_FORCE": "podDeletion.force or drain.force",
    "DRAIN_DELETE_EMPTYDIR_DATA": "podDeletion.deleteEmptyDir or drain.deleteEmptyDir",
}
"""The driver manager's variables that the chart sets to false, and the field of the upgrade policy for the same."""


def _settings_of_the_manager(driver: Json) -> t.Iterator[str]:
    """Yield a sentence for each variable that the driver manager ignores.

    Source: ``isAutoDrainEnabled`` and ``isGPUPodEvictionEnabled`` in cmd/driver-manager/main.go of
    https://github.com/NVIDIA/k8s-driver-manager (bd62ca7d).
    """
    if not (driver.get("upgradePolicy") or {}).get("autoUpgrade"):
        return
    for variable in (driver.get("manager") or {}).get("env") or []:
        field = _INSTEAD_OF_MANAGER.get(variable.get("name", ""))
        if field and str(variable.get("value")).lower() == "true":
            yield (
                f"{variable['name']} in driver.manager.env has no effect while driver.upgradePolicy.autoUpgrade is "
                f"true. Set {field} in driver.upgradePolicy instead."
            )


def _driver_fields(driver: Json) -> t.Iterator[str]:
    module_type = driver.get("kernelModuleType")
    if module_type in ("precompiled", "runcompiled"):
        yield (
            f"driver.kernelModuleType is {module_type!r}, which is not a valid value: use auto, open or proprietary. "
            "For precompiled drivers set driver.usePrecompiled: true."
        )
    if "useOpenKernelModules" in driver:
        yield (
            "driver.useOpenKernelModules no longer has an effect. "
            "Set driver.kernelModuleType: open (or auto, which chooses by GPU) instead."
        )
    if "gpuPodDeletion" in (driver.get("upgradePolicy") or {}):
        yield (
            "driver.upgradePolicy.gpuPodDeletion is the name of the Helm value. In a ClusterPolicy the field is "
            "driver.upgradePolicy.podDeletion; the API drops gpuPodDeletion, and upgrades stop with a node cordoned."
        )


def _other_fields(spec: Json) -> t.Iterator[str]:
    mig = spec.get("mig") or {}
    for wrong in ("config", "profile", "devices"):
        if wrong in mig:
            yield (
                f"mig.{wrong} is not a field of the ClusterPolicy, which only has mig.strategy (none, single, mixed). "
                "A node's label nvidia.com/mig.config sets its layout by the name of one mig-parted config, "
                "for example all-1g.10gb."
            )
    if "certManager" in spec:
        yield "certManager is not a field of the ClusterPolicy: the GPU Operator does not need cert-manager."


def _upgrade_policy(spec: Json) -> t.Iterator[str]:
    policy = (spec.get("driver") or {}).get("upgradePolicy")
    if not policy or not policy.get("autoUpgrade"):
        return
    missing = [block for block in ("waitForCompletion", "podDeletion", "drain") if policy.get(block) is None]
    if missing:
        fields = ", ".join(f"driver.upgradePolicy.{block}" for block in missing)
        yield (
            f"{fields} must be given when autoUpgrade is true (an empty {{}} takes the defaults): "
            "otherwise a driver upgrade stops with a node cordoned."
        )


def _nri(spec: Json) -> t.Iterator[str]:
    cdi = spec.get("cdi") or {}
    if not cdi.get("nriPluginEnabled"):
        return
    if cdi.get("enabled") is False:
        yield "cdi.nriPluginEnabled needs cdi.enabled: true."
    if (spec.get("toolkit") or {}).get("enabled") is False:
        yield "cdi.nriPluginEnabled needs toolkit.enabled: true, because the toolkit runs the plugin."


def _precompiled(spec: Json) -> t.Iterator[str]:
    if not (spec.get("driver") or {}).get("usePrecompiled"):
        return
    for key, name in operands.SIBLINGS.items():
        if (spec.get(key) or {}).get("enabled"):
            yield (
                f"{key}.enabled does not work with driver.usePrecompiled: {name} has no precompiled modules. "
                "Set one of the two to false."
            )


_IMAGE_FIELDS = ("repository", "image", "version")


def _images(spec: Json) -> t.Iterator[str]:
    for key, block in spec.items():
        missing = _missing_image_fields(block) if isinstance(block, dict) else []
        if missing:
            yield (
                f"{key}: repository, image and version go together (or image alone with its whole path); "
                f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing."
            )


def _missing_image_fields(block: Json) -> list[str]:
    given = [field for field in _IMAGE_FIELDS if block.get(field)]
    if block.get("enabled") is False or given in ([], ["image"]):
        return []
    return [field for field in _IMAGE_FIELDS if field not in given]
