# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the tests of a move call a GPU with two users."""

from __future__ import annotations

import typing as t

import pytest

from tests.support.bookings import Bookings


def pod(uid: str, node: str, gpus: int, event: str = "MODIFIED", phase: str = "Running") -> dict[str, t.Any]:
    container = {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    spec = {"nodeName": node, "containers": [container]}
    made = {"kind": "Pod", "metadata": {"uid": uid}, "spec": spec, "status": {"phase": phase}}
    return {"type": event, "object": made}


def claim(uid: str, *devices: tuple[str, str], event: str = "MODIFIED", admin: bool = False) -> dict[str, t.Any]:
    results = [{"pool": node, "device": name, "adminAccess": admin} for node, name in devices]
    status = {"allocation": {"devices": {"results": results}}}
    return {"type": event, "object": {"kind": "ResourceClaim", "metadata": {"uid": uid}, "status": status}}


@pytest.mark.parametrize(
    ("events", "conflicts"),
    [
        ([claim("a", ("n", "gpu-0")), claim("b", ("n", "gpu-0"))], ["n/gpu-0 has 2 claims"]),
        ([claim("a", ("n", "gpu-0")), claim("b", ("n", "gpu-0"), admin=True)], []),
        ([claim("a", ("n", "gpu-0")), claim("a", event="DELETED"), claim("b", ("n", "gpu-0"))], []),
        ([pod("a", "n", 4), pod("b", "n", 5)], ["n has 9 GPUs by the plugin"]),
        ([pod("a", "n", 4), pod("a", "n", 4, phase="Succeeded"), pod("b", "n", 5)], []),
        ([pod("a", "n", 4), claim("b", ("n", "gpu-0"))], ["n has both"]),
        ([pod("a", "n", 4), pod("a", "n", 4, event="DELETED"), claim("b", ("n", "gpu-0"))], []),
        ([pod("a", "n", 4), claim("b", ("m", "gpu-0"))], []),
    ],
)
def test_a_gpu_with_two_users_is_found(events: list[dict[str, t.Any]], conflicts: list[str]) -> None:
    bookings = Bookings()
    for event in events:
        bookings.take(event)
    assert bookings.conflicts(8) == conflicts
