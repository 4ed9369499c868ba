# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Helm values that the chart does not know, or that cannot work."""

from __future__ import annotations

import difflib
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.chart.chart import ChartFiles
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Known = dict[str, t.Any]
"""A tree of value names. None means that any names may follow."""

_PATH = re.compile(
    r"(?P<free>(?:toYaml|with|range|toJson|tpl)\s+\(?)?(?:\$\.|\.|\$root\.)Values(?P<path>(?:\.[A-Za-z_]\w*)+)"
)

_CLOSE = 0.8
"""How alike two names must be, from 0 to 1, for the one to be a misspelling of the other."""

WRONG_VALUES = {
    "driver.useOpenKernelModules": "It has no effect. Set driver.kernelModuleType to open, proprietary or auto.",
    "driver.useNvidiaDriverCRD": "In Helm values it is called driver.nvidiaDriverCRD.enabled.",
    "driver.upgradePolicy.podDeletion": "In Helm values it is called driver.upgradePolicy.gpuPodDeletion.",
    "operator.defaultRuntime": "It has had no effect since v26.3: the operator detects each node's container runtime.",
    "cdi.default": "It has no effect in this chart: CDI is the default way to give GPUs to containers.",
    "mig.config": "MIG is configured by the node label nvidia.com/mig.config and by migManager.config.",
    "migManager.config.strategy": "It is called mig.strategy.",
    "cert-manager": "The chart needs no cert-manager and installs none.",
}
"""Values that web pages recommend although they do not have the desired effect, each with the right field."""


def check_values(values: Json, chart: ChartFiles) -> list[tuple[str, str]]:
    """Return a path and a sentence for each value that the chart does not know. Helm ignores them silently.

    Raises an error for a value that the chart would accept but that cannot work.
    """
    driver = values.get("driver")
    kernel_module_type = driver.get("kernelModuleType") if isinstance(driver, dict) else None
    if kernel_module_type not in (None, "auto", "open", "proprietary"):
        raise GpuOpsError(
            f"driver.kernelModuleType cannot be {kernel_module_type!r}: it is auto, open or proprietary. "
            "For precompiled drivers set driver.usePrecompiled.",
            reason="ValuesRefused",
        )
    known = _known_values(chart)
    unknown = _unknown(values, known, "")
    return [(path, WRONG_VALUES.get(path) or _suggestion(path, siblings)) for path, siblings in unknown]


def without(values: Json, path: str) -> Json:
    """Return values without the one at a dotted path."""
    name, dummy, rest = path.partition(".")
    return {key: without(value, rest) if key == name else value for key, value in values.items() if rest or key != name}


def opposite(values: Json, path: str) -> Json | None:
    """Return values in which the switches at a dotted path are turned round, or None if there are none."""
    name, dummy, rest = path.partition(".")
    inner = opposite(values[name], rest) if rest else _turned(values[name])
    return None if inner is None or inner == values[name] else {**values, name: inner}


def _turned(value: t.Any) -> t.Any:
    if isinstance(value, dict):
        return {key: _turned(inner) for key, inner in value.items()}
    return not value if isinstance(value, bool) else value


def _suggestion(path: str, siblings: list[str]) -> str:
    parent, dummy, name = path.rpartition(".")
    close = difflib.get_close_matches(name, siblings, n=1, cutoff=_CLOSE)
    if not close:
        return "Helm ignores it. Remove it or correct its name."
    return f"Did you mean {parent}.{close[0]}?" if parent else f"Did you mean {close[0]}?"


def _known_values(chart: ChartFiles) -> Known:
    """Return the names in the chart's ``values.yaml`` and templates. Templates mention more than ``values.yaml``."""
    known = _tree(chart.values)
    for use in _PATH.finditer(chart.templates):
        _learn(known, use["path"].strip(".").split("."), free=bool(use["free"]))
    for name in {"global", *chart.subcharts}:
        known[name] = None
    return known


def _tree(values: Json) -> Known:
    return {name: _tree(value) if isinstance(value, dict) and value else None for name, value in values.items()}


def _learn(known: Known, path: list[str], free: bool) -> None:
    for name in path[:-1]:
        inner = known.setdefault(name, {})
        if inner is None:
            return
        known = inner
    if free:
        known[path[-1]] = None
    else:
        known.setdefault(path[-1], None)


def _unknown(values: Json, known: Known, prefix: str) -> t.Iterator[tuple[str, list[str]]]:
    """Yield each unknown value's path, and the known names at the same level."""
    for name, value in values.items():
        path = f"{prefix}{name}"
        if name not in known:
            yield path, sorted(known)
        elif isinstance(value, dict) and known[name] is not None:
            yield from _unknown(value, known[name], f"{path}.")
