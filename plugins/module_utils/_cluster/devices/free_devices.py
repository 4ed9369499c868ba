# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which devices a claim could get now.

Pure.
"""

from __future__ import annotations

import typing as t
from fractions import Fraction

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.devices.device_pools import Counter, DevicePool
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack.device_claims import (
    AllocatedClaim,
    DeviceName,
)


def free(pools: t.Iterable[DevicePool], claims: t.Iterable[AllocatedClaim]) -> set[DeviceName]:
    """Return the devices of complete pools that no claim has, whole or in parts, and that no taint keeps away."""
    held = {device for claim in claims for device in claim.devices}
    return {name for pool in pools if not pool.missing for name in _free_of(pool, held)}


def _free_of(pool: DevicePool, held: t.Collection[DeviceName]) -> t.Iterator[DeviceName]:
    rest = _rest(pool, held)
    for device in pool.devices:
        fits = all(rest.get(counter, Fraction(0)) >= amount for counter, amount in device.consumes.items())
        is_held = device.name in held and not device.is_shared
        if fits and not is_held and not device.is_kept_away:
            yield device.name


def _rest(pool: DevicePool, held: t.Collection[DeviceName]) -> dict[Counter, Fraction]:
    """Return what is left of the counters that the partitions of a GPU share."""
    rest = dict(pool.counters)
    for device in pool.devices:
        if device.name in held:
            for counter, amount in device.consumes.items():
                rest[counter] = rest.get(counter, Fraction(0)) - amount
    return rest
