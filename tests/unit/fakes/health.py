# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What kubelets write of devices into the status of pods (KEP-4680)."""

from __future__ import annotations

from tests.unit.fakes.stack import Json

CLAIMED = "k8s.gpu.nvidia.com/claim=dab5ab50-d59a-42a6-af16-cfd4628c0f7a-gpu-0"
"""The name of a claimed GPU in CDI. Source: kubernetes-sigs/dra-driver-nvidia-gpu at 0d2cb0d9, ``cdi.go``."""


def with_health(
    pod: Json, resource: str, *devices: tuple[str, str], message: str = "", container: str = "cuda"
) -> Json:
    """Return a pod whose status has these devices of a resource, each with its health."""
    said = {"message": message} if message else {}
    health = [{"resourceID": name, "health": state, **said} for name, state in devices]
    status = {"name": container, "allocatedResourcesStatus": [{"name": resource, "resources": health}]}
    return {**pod, "status": {**(pod.get("status") or {}), "containerStatuses": [status]}}
