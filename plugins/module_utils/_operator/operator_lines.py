# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The release lines of NVIDIA's GPU Operator: what each works with, what it brings, and what the step to it means.

What a line works with comes from the pages "Platform Support" and "Life Cycle" of the GPU Operator's documentation
(https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/platform-support.html, in the repository
https://github.com/NVIDIA/cloud-native-docs) as of each line's revision and date. NVIDIA has not validated anything that
those pages do not list. It may still work, so a finding about it is a warning.
"""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._operator.older_lines import OLDER_LINES, OLDER_STEPS
from ansible_collections.gpuops.nvidia.plugins.module_utils._operator.operator_line import Feature, Minor, OperatorLine
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_CURRENT = (
    OperatorLine(
        name="26.7",
        life_cycle="supported",
        revision="52dcb7b8",
        date="2026-08-21",
        kubernetes=((1, 32), (1, 36)),
        operating_systems={
            "ubuntu": ("22.04", "24.04", "26.04"),
            "rhcos": (),
            "rhel": ("8.8", "8.10", "9.2", "9.4", "9.6", "9.7", "9.8", "10.0", "10.1", "10.2"),
            "rocky": ("8.10", "9.7", "10.1"),
        },
        containerd=((1, 8), (2, 3)),
        driver="595.91.07",
        drivers=("610.57.04", "580.173.02", "535.309.01"),
        brings=("restarts_in_place", "orphans_driver_pods", "default_nvidiadriver", "gpucluster"),
        major_tags={"rhel": 0, "ol": 0},
        steps=(
            {
                "from": "v26.3",
                "to": "v26.7",
                "since": "v26.7.0",
                "date": "2026-08-20",
                "last": "v26.7.0",
                "verdict": "manual",
                "restarts": {"operator": True, "operands": True, "runtime": True, "driver": "evicts"},
                "changes": [
                    {
                        "name": "rhel-image-tag",
                        "what": "image_tag",
                        "level": "failure",
                        "when": {"image_tag": ["rhel"], "mirrored": True},
                        "message": (
                            "The driver's image for Red Hat Enterprise Linux has the major version alone in its "
                            "tag (rhel9.4 becomes rhel9)."
                        ),
                        "remedy": "Mirror the driver's image under the new tag.",
                    },
                    {
                        "name": "rhel-image-tag-of-old-drivers",
                        "what": "image_tag",
                        "level": "warning",
                        "when": {"image_tag": ["rhel", "ol", "rocky"]},
                        "message": (
                            "The driver's image for Red Hat Enterprise Linux has the major version alone in its "
                            "tag (rhel9.4 becomes rhel9). An older driver may not exist under that tag."
                        ),
                        "remedy": (
                            "Check that the image of the driver that the nodes keep exists with the new tag. A "
                            "node that starts again needs it."
                        ),
                    },
                    {
                        "name": "oracle-linux-image-tag",
                        "what": "image_tag",
                        "level": "failure",
                        "when": {"image_tag": ["ol"], "mirrored": True},
                        "message": (
                            "The driver's image for Oracle Linux has the major version alone in its tag (ol9.4 "
                            "becomes ol9)."
                        ),
                        "remedy": "Mirror the driver's image under the new tag.",
                    },
                    {
                        "name": "nvidiadriver-upgrade-policy",
                        "what": "changed",
                        "level": "warning",
                        "when": {"nvidiadrivers": True},
                        "message": (
                            "Each NVIDIADriver has its own upgradePolicy, whose autoUpgrade is true unless it is "
                            "set. The ClusterPolicy's no longer counts for them."
                        ),
                        "remedy": (
                            "Set upgradePolicy in each NVIDIADriver, if the operator shall not replace drivers "
                            "by itself."
                        ),
                    },
                    {
                        "name": "nvidiadriver-at-once",
                        "what": "changed",
                        "level": "failure",
                        "when": {"nvidiadrivers": False, "values_true": ["driver.nvidiaDriverCRD.enabled"]},
                        "message": (
                            "The driver cannot move to NVIDIADriver objects in the same upgrade. The operator "
                            "would remove the drivers first."
                        ),
                        "remedy": "Upgrade with driver.nvidiaDriverCRD.enabled: false, and set it in a second run.",
                    },
                    {
                        "name": "service-monitor",
                        "what": "changed",
                        "level": "warning",
                        "when": {
                            "values_unset": ["dcgmExporter.serviceMonitor.enabled"],
                            "served": ["monitoring.coreos.com"],
                        },
                        "message": (
                            "The chart creates a ServiceMonitor for the DCGM exporter by default, so Prometheus "
                            "begins to read its metrics."
                        ),
                        "remedy": "Set dcgmExporter.serviceMonitor.enabled: false if you have your own.",
                    },
                    {
                        "name": "kata-manager-ignored",
                        "what": "removed",
                        "level": "failure",
                        "when": {"values_true": ["kataManager.enabled"]},
                        "message": (
                            "The operator ignores the Kata manager, and deletes its RuntimeClasses from under "
                            "the pods that use them."
                        ),
                        "remedy": (
                            "Install Kata Containers with kata-deploy first, and remove kataManager from your values."
                        ),
                    },
                ],
                "back": {
                    "verdict": "manual",
                    "message": (
                        "The driver must not be determined by NVIDIADriver objects any more, and a GPUCluster "
                        "must be gone. The CRDs that v26.7 added stay."
                    ),
                },
                "sources": [
                    "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/release-notes.html#v26-7-0",
                    "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-driver-configuration.html",
                    "NVIDIA/gpu-operator v26.3.3 and v26.7.0, deployments/gpu-operator/values.yaml and crds, "
                    "controllers, api",
                    # The newer chart has a schema of its values, which Helm applies when it renders the chart.
                    "kubernetes-sigs/node-feature-discovery v0.18.3 and v0.19.0, deployment/helm",
                ],
            },
            {
                "from": "v26.7",
                "to": "v26.7",
                "since": "v26.7.0",
                "date": "2026-08-20",
                "last": "v26.7.0",
                "verdict": "safe",
                "restarts": {"operator": True, "operands": True, "runtime": True, "driver": "in_place"},
                "changes": [],
                "back": {"verdict": "safe"},
                "sources": [
                    "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/release-notes.html#v26-7-0",
                    "NVIDIA/gpu-operator v26.7.0, internal/predicates/restart_only.go",
                ],
            },
        ),
    ),
    OperatorLine(
        name="26.3",
        life_cycle="deprecated",
        revision="922e549f",
        date="2026-07-23",
        kubernetes=((1, 32), (1, 36)),
        operating_systems={
            "ubuntu": ("22.04", "24.04"),
            "rhcos": (),
            "rhel": ("8.8", "8.10", "9.2", "9.4", "9.6", "9.7", "9.8", "10.0", "10.1", "10.2"),
            "rocky": ("8.10", "9.7", "10.1"),
        },
        containerd=((1, 7), (2, 2)),
        driver="580.126.20",
        drivers=(
            "595.71.05",
            "595.58.03",
            "590.48.01",
            "580.173.02",
            "580.167.08",
            "580.159.04",
            "580.159.03",
            "570.211.01",
            "535.309.01",
            "535.288.01",
        ),
        brings=(),
        major_tags={"rocky": 0, "rhel": 10},
        steps=(
            {
                "from": "v25.10",
                "to": "v26.3",
                "since": "v26.3.0",
                "date": "2026-03-18",
                "last": "v26.3.3",
                "verdict": "manual",
                "restarts": {"operator": True, "operands": True, "runtime": True, "driver": "evicts"},
                "changes": [
                    {
                        "name": "rocky-image-tag",
                        "what": "image_tag",
                        "level": "failure",
                        "when": {"image_tag": ["rocky"], "mirrored": True},
                        "message": (
                            "The driver's image for Rocky Linux has the major version alone in its tag (rocky9.6 "
                            "becomes rocky9)."
                        ),
                        "remedy": "Mirror the driver's image under the new tag.",
                    },
                    {
                        "name": "rhel-10-image-tag",
                        "what": "image_tag",
                        "level": "failure",
                        "when": {"image_tag": ["rhel"], "mirrored": True},
                        "message": (
                            "The driver's image for Red Hat Enterprise Linux 10 has the major version alone in "
                            "its tag (rhel10)."
                        ),
                        "remedy": "Mirror the driver's image under the new tag.",
                    },
                    {
                        "name": "mig-layouts",
                        "what": "changed",
                        "level": "warning",
                        "when": {"values_unset": ["migManager.config.name"]},
                        "message": (
                            "Each node gets its own list of MIG layouts, which the MIG manager makes from the "
                            "node's GPUs. Layouts of other models, and those of default-mig-parted-config that "
                            "are not made there, no longer exist on the node."
                        ),
                        "remedy": (
                            "Compare the labels nvidia.com/mig.config with the ConfigMaps <node>-mig-config "
                            "after the upgrade."
                        ),
                    },
                    {
                        "name": "rhel-8-mig-manager",
                        "what": "changed",
                        "level": "warning",
                        "when": {"systems": ["rhel"], "major_below": 9, "values_false": ["driver.enabled"]},
                        "message": (
                            "On RHEL 8 with the driver of the host, the MIG manager v0.13.1 or newer finds too "
                            "old a glibc and fails."
                        ),
                        "remedy": "Set migManager.version: v0.12.3, as NVIDIA's release notes advise.",
                    },
                    {
                        "name": "operator-init-container",
                        "what": "removed",
                        "level": "warning",
                        "when": {"values": ["operator.initContainer"]},
                        "message": "The chart no longer has operator.initContainer.",
                        "remedy": "Remove the values.",
                    },
                    {
                        "name": "kata-manager",
                        "what": "removed",
                        "level": "warning",
                        "when": {"values_true": ["kataManager.enabled"]},
                        "message": "The Kata manager is deprecated, and the operator ignores it from v26.7 on.",
                        "remedy": "Install Kata Containers with kata-deploy, and set sandboxWorkloads.mode to kata.",
                    },
                    {
                        "name": "master-taint",
                        "what": "changed",
                        "level": "warning",
                        "when": {
                            "values_unset": ["operator.tolerations"],
                            "tainted": ["node-role.kubernetes.io/master"],
                        },
                        "message": "The operator no longer tolerates the taint node-role.kubernetes.io/master.",
                        "remedy": "Set operator.tolerations if it shall run on those nodes.",
                    },
                ],
                "back": {
                    "verdict": "manual",
                    "message": "cdi.nriPluginEnabled and sandboxWorkloads.mode do not exist there.",
                },
                "sources": [
                    "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/release-notes.html#v26-3-0",
                    "NVIDIA/gpu-operator v25.10.1 and v26.3.0, deployments/gpu-operator/values.yaml and crds",
                    "NVIDIA/gpu-operator v26.3.3, controllers/state_manager.go",
                ],
            },
            {
                "from": "v26.3",
                "to": "v26.3",
                "since": "v26.3.0",
                "date": "2026-03-18",
                "last": "v26.3.3",
                "verdict": "safe",
                "restarts": {"operator": True, "operands": True, "runtime": True, "driver": "evicts"},
                "changes": [
                    {
                        "name": "cc-capable-devices",
                        "what": "removed",
                        "level": "warning",
                        "when": {"values": ["ccManager.env"]},
                        "message": (
                            "Since v26.3.1 the chart sets no CC_CAPABLE_DEVICE_IDS for the confidential "
                            "computing manager."
                        ),
                        "remedy": "Remove the variable from ccManager.env unless you need your own list.",
                    },
                ],
                "back": {"verdict": "safe"},
                "sources": [
                    "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/release-notes.html#v26-3-3",
                    "NVIDIA/gpu-operator v26.3.0 to v26.3.3, deployments/gpu-operator/values.yaml and crds",
                ],
            },
        ),
    ),
)

LINES = {line.name: line for line in (*_CURRENT, *OLDER_LINES)}
"""The release lines, newest first."""

NEWEST = next(iter(LINES.values()))

STEPS: list[Json] = [*OLDER_STEPS, *(step for line in reversed(LINES.values()) for step in line.steps)]
"""What is known of the steps between releases, oldest first."""


def line_of(operator_version: str | None) -> OperatorLine | None:
    """Return the release line of a version like ``v26.7.0``, the newest line without a version, or None if unknown."""
    if operator_version is None:
        return NEWEST
    return LINES.get(".".join(operator_version.removeprefix("v").split(".")[:2]))


def first_with(feature: Feature) -> Minor:
    """Return the oldest line that does something."""
    return min(line.number for line in LINES.values() if feature in line.brings)


def has_major_tag(system: str, version: str, line: Minor | None) -> bool:
    """Return whether a driver's image has a system's major version alone in its tag. No line means the newest."""
    major = version.partition(".")[0]
    number = int(major) if major.isdecimal() else 0
    return any(
        system in each.major_tags and number >= each.major_tags[system]
        for each in LINES.values()
        if line is None or each.number <= line
    )
