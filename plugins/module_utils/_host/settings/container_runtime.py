# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""NVIDIA's runtime in the configuration of a container runtime, written by nvidia-ctk."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.runtimes import RUNTIMES, configuration
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_TIMEOUT_S = 60.0
_BY_NAME = {runtime.name: runtime for runtime in RUNTIMES if runtime.distribution is None}
# From version 1.18 on, nvidia-ctk writes a file of its own, which the main file imports.
_DROP_INS = {
    "containerd": ("/etc/containerd/conf.d/*", "/etc/containerd/config.d/*"),
    "crio": ("/etc/crio/conf.d/*", "/etc/crio/crio.conf.d/*"),
    "docker": (),
}
_NVIDIA = "nvidia"


def configure(host: Host, options: t.Mapping[str, t.Any], check_mode: bool) -> Json:
    """Add NVIDIA's runtime, and return the module's result. In check mode, nvidia-ctk itself predicts the text."""
    name, default = options["name"], options["default"]
    if _is_configured(host, name, default):
        return {"changed": False, "diff": []}
    command = ["nvidia-ctk", "runtime", "configure", f"--runtime={name}", *(["--set-as-default"] if default else [])]
    before = _texts(host, name)
    if check_mode:
        return {"changed": True, "diff": [_predicted(host, name, command)]}
    output = host.run(command, _TIMEOUT_S)
    if not output.ok:
        raise GpuOpsError(f"nvidia-ctk could not configure {name}: {output.error}.", reason="Unsupported")
    if not _is_configured(host, name, default):
        raise GpuOpsError(
            f"nvidia-ctk ended without an error, but the configuration of {name} has no runtime of NVIDIA"
            f"{' as its default' if default else ''}: see whether {name} uses another file.",
            reason="Unsupported",
        )
    after = _texts(host, name)
    changed = [path for path in after if before.get(path) != after[path]]
    return {"changed": True, "diff": [_diff(path, before.get(path, ""), after[path]) for path in changed]}


def _is_configured(host: Host, name: str, default: bool) -> bool:
    settings = configuration(host, _BY_NAME[name])[1]
    there = any(handler.startswith(_NVIDIA) for handler in settings.handlers)
    return there and (not default or settings.default == _NVIDIA)


def _texts(host: Host, name: str) -> dict[str, str]:
    patterns = (*_BY_NAME[name].configs, *_DROP_INS[name])
    return {path: f"{host.read(path) or ''}\n" for pattern in patterns for path in host.glob(pattern)}


def _predicted(host: Host, name: str, command: list[str]) -> Json:
    path = configuration(host, _BY_NAME[name])[0] or f"the configuration of {name}"
    before = f"{host.read(path) or ''}\n" if path.startswith("/") else ""
    if host.which("nvidia-ctk") is None:
        return _diff(
            path, before, f"{before}# nvidia-ctk, which the container toolkit brings, adds NVIDIA's runtime.\n"
        )
    output = host.run([*command, "--dry-run"], _TIMEOUT_S)
    if not output.ok:
        raise GpuOpsError(f"nvidia-ctk could not configure {name}: {output.error}.", reason="Unsupported")
    return _diff(path, before, output.stdout)


def _diff(path: str, before: str, after: str) -> Json:
    return {"before_header": path, "after_header": path, "before": before, "after": after}
