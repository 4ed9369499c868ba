# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which operands wait for which on a node: what is wrong with one explains only those that wait for it. Pure.

Source: NVIDIA GPU Operator v26.7.0, the init containers in ``assets/*/*daemonset.yaml``: the toolkit waits for the
driver, the other operands for the toolkit, and the validator for the device plugin, too.
"""

from __future__ import annotations

import re

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Sighting

DRIVER_NAME = operands.DRIVER.name
TOOLKIT_NAME = "container-toolkit"

_IN_INIT = re.compile(r"Init:\d+/\d+|PodInitializing|ContainerCreating|")
"""Statuses of a pod that waits for another one. A pod that crashes or that has no image has a cause of its own.

The reasons of a verdict have no status.
"""


def waits_for(operand: str, other: str) -> bool:
    """Return whether pods of an operand start only after those of the other one."""
    if operand in (DRIVER_NAME, other):
        return False
    if operand == TOOLKIT_NAME:
        return other == DRIVER_NAME
    return other in (DRIVER_NAME, TOOLKIT_NAME) or (
        operand == operands.VALIDATOR.name and other == operands.DEVICE_PLUGIN.name
    )


_STAGES = ("the driver", "the toolkit", "a CUDA program that runs", "a GPU that is offered")
"""What each init container of the validator waits for, in their order."""
_STAGE = re.compile(r"Init:(?P<done>\d)/(?P<total>\d)")


def with_stage(operand: str, status: str) -> str:
    """Return the status of an operand's pod, with what it waits for where the status shows that."""
    found = _STAGE.fullmatch(status)
    if not found or operand == DRIVER_NAME:
        return status
    done = int(found["done"])
    if operand == operands.VALIDATOR.name and found["total"] == str(len(_STAGES)) and done < len(_STAGES):
        return f"{status} (it waits for {_STAGES[done]})"
    awaited = _STAGES[0] if operand == TOOLKIT_NAME else _STAGES[1]
    return f"{status} (it waits for {awaited})" if done == 0 else status


def may_follow(effect: Sighting, cause: Sighting) -> bool:
    """Return whether a symptom may follow from a cause, by the operands that both are about."""
    if not cause.operand or not effect.operand or cause.operand == effect.operand:
        return True
    in_init = _IN_INIT.fullmatch(effect.values.get("status", ""))
    return in_init is not None and waits_for(effect.operand, cause.operand)


_OWNER = re.compile(r"\b(?:pod|daemonset|operand) (?:[\w.-]+/)?(?P<name>[\w.-]+)", re.IGNORECASE)
_PODS = (
    (re.compile(r"nvidia-v?gpu-driver-"), DRIVER_NAME),  # of an NVIDIADriver
    (re.compile(r"nvidia-(cuda|device-plugin)-validator"), operands.VALIDATOR.name),  # which the validator starts
    (re.compile(r"gpu-operator|.*node-feature-discovery|nfd-"), ""),  # on which all operands depend
)


def operand_of(text: str) -> str:
    """Return the operand of a pod or DaemonSet (``pod gpu-operator/nvidia-dcgm-x7k2p``), or an empty string for all.

    A pod that is no operand's stands for itself: its troubles have no consequences.
    """
    found = _OWNER.search(text)
    if not found:
        return ""
    name = found["name"]
    known = next((operand for expression, operand in _PODS if expression.match(name)), None)
    if known is not None:
        return known
    owners = [each for each in operands.OPERANDS if name == each.name or f"{name}-".startswith(f"{each.daemonset}-")]
    return max(owners, key=lambda each: len(each.daemonset)).name if owners else name
