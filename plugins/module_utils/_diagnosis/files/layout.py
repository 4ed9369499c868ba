# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What the name of a file says about its content, in the layouts of tools that collect evidence. Pure.

The layouts are those of ``oc adm must-gather`` and ``oc adm inspect`` (openshift/oc, ``pkg/cli/admin/inspect``), and of
the GPU Operator's ``hack/must-gather.sh`` (NVIDIA/gpu-operator).
"""

from __future__ import annotations

import dataclasses
import re

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_search import PREVIOUS, Kind


@dataclasses.dataclass(frozen=True)
class Origin:
    """What wrote the lines of a file, as far as it is known."""

    kind: Kind = "text"
    source: str = ""
    node: str = ""
    object: str = ""
    namespace: str = ""
    """Of objects without one."""


_NAME = r"[\w.-]+"
_LAYOUTS: tuple[tuple[str, Kind, str, str], ...] = (
    (
        rf"namespaces/(?P<namespace>{_NAME})/pods/(?P<pod>{_NAME})/(?P<container>{_NAME})/{_NAME}/logs/"
        r"(?P<run>current|previous)(?:\.insecure)?\.log(?:\.gz)?",
        "pod",
        "pod {namespace}/{pod}, container {container}",
        "pod {namespace}/{pod}",
    ),
    (rf"gpu_operand_pod_(?P<pod>{_NAME}?)(?:\.(?P<run>previous))?\.log", "pod", "pod {pod}", "pod {pod}"),
    (r"gpu_operator_pod(?:\.(?P<run>previous))?\.log", "pod", "pod gpu-operator", "pod gpu-operator"),
    (rf"nvidia-bug-report_(?P<node>{_NAME}?)\.log(?:\.gz)?", "text", "bug report of {node}", ""),
    (rf"gpu_device_usage_(?P<node>{_NAME})\.log", "text", "device usage of {node}", ""),
    (r"(?:[\w.-]*[_-])?(?P<unit>kubelet|crio|containerd)_service\.log", "unit", "journal of {unit}", ""),
    (r"(?:[\w-]*[_.-])?(?:dmesg|kern)(?:[_.-][\w.-]*)?", "kernel", "kernel log", ""),
)
"""Regular expressions of names without the folders before them, each with kind, source and object of the lines."""

_IN_NAMESPACE = re.compile(rf"(?:.*/)?namespaces/(?P<namespace>{_NAME})/.*")


def origin_of(name: str) -> Origin:
    """Return what a file's name says about its content."""
    for expression, kind, source, about in _LAYOUTS:
        found = re.fullmatch(r"(?:.*/)?" + expression, name)
        if found:
            values = {key: value or "" for key, value in found.groupdict().items()}
            previous = PREVIOUS if values.get("run") == "previous" else ""
            return Origin(
                kind, source.format(**values) + previous, values.get("node", ""), about.format(**values), _of(name)
            )
    return Origin(source=name, namespace=_of(name))


def _of(name: str) -> str:
    found = _IN_NAMESPACE.fullmatch(name)
    return found["namespace"] if found else ""


SECRETS = re.compile(r"(?:.*/)?(?:secrets\.(?:ya?ml|json)|core/secrets/.*|\.?kubeconfig|id_rsa|.*\.(?:pem|key))")
"""Files that do not belong in an archive, and that are not about GPUs."""
