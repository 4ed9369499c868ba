# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ComputeDomains and IMEX: lines that the DRA driver, nvidia-imex and the API server write."""

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules import compute_domains

from tests.unit import diagnosed
from tests.unit.fakes import claimed


@pytest.mark.parametrize(
    ("text", "code", "certainty"),
    [
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/cmd/compute-domain-kubelet-plugin
        (
            "error getting cliqueID: unexpected number of unique CliqueIDs found on devices",
            "FabricCliquesDiffer",
            "likely",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/cmd/compute-domain-kubelet-plugin/nvlib.go
        (
            "error getting fabric information from one or more devices: NVLink fabric not attached (device 0/GPU-1): state=2, refusing to start",
            "FabricNotJoined",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/cmd/compute-domain-kubelet-plugin/nvlib.go
        (
            "NVLink fabric registration error (device 0/GPU-1): status=ERROR_TIMEOUT, refusing to start",
            "FabricNotJoined",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/864
        ("empty cluster UUID, refusing to start", "FabricFalselyMissed", "certain"),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/cmd/compute-domain-kubelet-plugin
        (
            "prepare devices failed: error asserting ComputeDomain Ready: current node not ready in ComputeDomain",
            "ComputeDomainNotReady",
            "likely",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/cmd/compute-domain-kubelet-plugin/computedomain.go
        (
            "error adding Node label for ComputeDomain: label already exists for a different ComputeDomain",
            "NodeInOtherDomain",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/cmd/compute-domain-kubelet-plugin/computedomain.go
        (
            "the ResourceClaim's namespace is different than the ComputeDomain's namespace",
            "DomainOfOtherNamespace",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/cmd/compute-domain-daemon/cdclique.go
        (
            "error getting next available index: no available indices within maxNodesPerIMEXDomain (18)",
            "ComputeDomainFull",
            "certain",
        ),
        # https://github.com/NVIDIA/aicr/issues/2439
        ('The ComputeDomain "a" is invalid: spec.numNodes: Required value', "ComputeDomainNeedsNumNodes", "certain"),
        # https://github.com/NVIDIA/aicr/pull/2520
        ("Failed to allocate Imex session ... NV_ERR_IN_USE", "IMEXSessionInUse", "likely"),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/95932046/cmd/compute-domain-kubelet-plugin/nvlib.go
        (
            "host nvidia-imex daemon readiness check failed: host nvidia-imex daemon not ready: DEGRADED",
            "HostIMEXNotReady",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/289
        (
            "[ERROR] [tid 39] No matching network interface found for any IP addresses in the node configuration file",
            "IMEXHasNoAddress",
            "likely",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/pull/333
        (
            "Startup probe failed: Query Status returned error code: 14 - failed to connect to all addresses; last error: UNKNOWN: ipv6:%5B::%5D:50005: Address family not supported by protocol",
            "IMEXProbedOverIPv6",
            "certain",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/pull/570
        ("open /etc/nvidia-imex/nodes_config.cfg: permission denied", "DomainDaemonMayNotWrite", "likely"),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/1447
        (
            "[ERROR] [tid 937292] Node disconnect event detected for node 1 with address compute-domain-daemon-0001",
            "IMEXPeerLost",
            "likely",
        ),
        # https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/948
        ("[ERROR] Failed to get new memory reference with rc: 87", "IMEXEnsembleChanged", "possible"),
        # https://github.com/NVIDIA/nvbandwidth/issues/39
        (
            "[CUDA_ERROR_NOT_PERMITTED] operation not permitted in expression cuMemCreate(&handle, size, &prop, 0 )",
            "IMEXChannelMissing",
            "possible",
        ),
    ],
)
def test_published_lines_of_compute_domains(text: str, code: str, certainty: str) -> None:
    found = diagnosed.found(compute_domains.RULES, text)
    assert {name: each.certainty for name, each in found.items()} == {code: certainty}


def test_what_keeps_a_daemon_from_starting_explains_that_its_domain_is_not_ready() -> None:
    found = diagnosed.found(
        compute_domains.RULES,
        diagnosed.event("error asserting ComputeDomain Ready: current node not ready in ComputeDomain"),
        diagnosed.event("label already exists for a different ComputeDomain"),
    )
    assert list(found) == ["NodeInOtherDomain"]


def test_domains_of_a_cluster_that_are_not_ready_or_stay() -> None:
    waits, old = claimed.domain(("gpu-0000", "NotReady"), ("gpu-0001", "Ready")), "2026-11-28T10:00:00Z"
    given = [waits, claimed.domain(), claimed.domain(deleted=old), claimed.domain(deleted="2026-11-28T10:59:00Z")]
    found = diagnosed.found(compute_domains.RULES, taken="2026-11-28T11:00:00Z", objects={"computedomains": given})
    assert {code: each.nodes for code, each in found.items()} == {
        "ComputeDomainNotReady": ("gpu-0000",), "ComputeDomainStuck": (),
    }  # fmt: skip
    assert found["ComputeDomainStuck"].objects == ("computedomain team/job",)
