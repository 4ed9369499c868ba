# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The images that the operator composes, and the specifications that it refuses."""

from __future__ import annotations

import re
import typing as t

from lab.cluster.operator.standin.lines import V26_7, Line

Json = dict[str, t.Any]

OS_ID = "feature.node.kubernetes.io/system-os_release.ID"
OS_VERSION = "feature.node.kubernetes.io/system-os_release.VERSION_ID"
KERNEL = "feature.node.kubernetes.io/kernel-version.full"


class ReconcileError(Exception):
    """An error that fails a reconciliation."""


def image(block: Json, env_name: str, env: t.Mapping[str, str]) -> str:
    """Return the image that a block of the spec names, or else the operator's environment."""
    repository, name, version = (block.get(key) or "" for key in ("repository", "image", "version"))
    if not repository and not version:
        path = name or env.get(env_name)
        if not path:
            raise ReconcileError(f"empty image path provided through both ClusterPolicy CR and ENV {env_name}")
        return t.cast(str, path)
    if not all((repository, name, version)):
        raise ReconcileError(
            "invalid image specification: repository, image and version must all be set "
            f"(repository={repository}, image={name}, version={version})"
        )
    return f"{repository}/{name}{'@' if version.startswith('sha256:') else ':'}{version}"


def driver_image(block: Json, env_name: str, env: t.Mapping[str, str], os_tag: str, kernel: str | None = None) -> str:
    """Return a driver image for an operating system, and for a kernel if the driver is precompiled."""
    path = image(block, env_name, env)
    if "sha256:" in path:
        return path
    return "-".join(part for part in (path, kernel, os_tag) if part)


def os_tag(labels: t.Mapping[str, str], line: Line = V26_7) -> str:
    """Return the end of the driver image's tag for a node with these labels."""
    for key, what in ((OS_ID, "name"), (OS_VERSION, "version")):
        if key not in labels:
            raise ReconcileError(f"failed to retrieve GPU node OS info: unable to retrieve OS {what} from label {key}")
    system, version = labels[OS_ID], labels[OS_VERSION]
    major = version.split(".")[0]
    since = line.short_os_tags.get(system)
    return system + (major if since is not None and int(major) >= since else version)


def kernel_suffix(kernel: str) -> str:
    """Return a kernel's version in the form that a DaemonSet's name has."""
    return re.sub(r"x86_64(?:_64k)?|aarch64(?:_64k)?", "", kernel).replace("_", ".").removesuffix(".").lower()
