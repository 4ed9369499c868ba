# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the options of the module compute_domain ask for, and the ComputeDomain to apply for it. Pure.

Source: api/nvidia.com/resource/v1beta1/computedomain.go of kubernetes-sigs/dra-driver-nvidia-gpu (95932046).
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.api import FIELD_MANAGER
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy import ownership
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.kept.kept_objects import KeptKind
from ansible_collections.gpuops.nvidia.plugins.module_utils._numbers import refuse_below
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

DOMAIN = KeptKind(
    "ComputeDomain",
    "resource.nvidia.com/v1beta1",
    "computedomains",
    owner="compute-domain",
    fields=("spec",),
    is_immutable=True,
)
DOMAIN_LABEL = "resource.nvidia.com/computeDomain"
"""The label with the UID of a ComputeDomain, on its nodes and on all that its controller makes. Also its finalizer."""


@dataclasses.dataclass(frozen=True)
class DomainRequest:
    """What a task asks for. What it leaves out (None) stays as it is."""

    name: str
    namespace: str
    is_present: bool
    num_nodes: int | None
    template: str | None
    allocation_mode: str | None
    in_one_clique: bool
    waits: bool
    timeout_s: int
    progress_path: str | None

    @property
    def full_name(self) -> str:
        """The name with the namespace."""
        return f"{self.namespace}/{self.name}"

    @property
    def path(self) -> str:
        """The path of the ComputeDomain."""
        return DOMAIN.path(self.namespace, self.name)


def request_of(options: t.Mapping[str, t.Any]) -> DomainRequest:
    """Return what the options ask for. Raises for numbers that cannot be meant."""
    refuse_below(options, wait_timeout=0, num_nodes=0)
    channel = options["channel"] or {}
    return DomainRequest(
        name=options["name"],
        namespace=options["namespace"],
        is_present=options["state"] == "present",
        num_nodes=options["num_nodes"],
        template=channel.get("template"),
        allocation_mode=channel.get("allocation_mode"),
        in_one_clique=options["one_clique"],
        waits=options["wait"],
        timeout_s=options["wait_timeout"],
        progress_path=options["progress_path"],
    )


def manifest(request: DomainRequest, existing: Json | None) -> Json:
    """Return the ComputeDomain to apply: what is given, and what it has already."""
    spec = (existing or {}).get("spec") or {}
    # The API server fills in a default, which is not ours.
    ours = ownership.applied_by(existing, FIELD_MANAGER) if existing else {}
    mode = request.allocation_mode or ((ours.get("spec") or {}).get("channel") or {}).get("allocationMode")
    wanted = {
        "numNodes": spec.get("numNodes", 0) if request.num_nodes is None else request.num_nodes,
        "channel": {
            "resourceClaimTemplate": {"name": request.template or template_of(existing) or request.name},
            **({"allocationMode": mode} if mode else {}),
        },
    }
    return DOMAIN.manifest(request.name, request.namespace, spec=wanted)


def template_of(domain: Json | None) -> str:
    """Return the name of the template from which the pods of a ComputeDomain get their claims, or an empty string."""
    channel = ((domain or {}).get("spec") or {}).get("channel") or {}
    return str((channel.get("resourceClaimTemplate") or {}).get("name") or "")


def differences(existing: Json, wanted: Json) -> list[str]:
    """Return the fields of the spec that a ComputeDomain has with another value, with both values."""
    before, after = _fields(existing["spec"]), _fields(wanted["spec"])
    return [f"{field} is {before[field]}, not {value}" for field, value in after.items() if before[field] != value]


def _fields(spec: Json) -> dict[str, t.Any]:
    channel = spec.get("channel") or {}
    return {
        "num_nodes": spec.get("numNodes", 0),
        "channel.template": (channel.get("resourceClaimTemplate") or {}).get("name"),
        "channel.allocation_mode": channel.get("allocationMode", "Single"),
    }
