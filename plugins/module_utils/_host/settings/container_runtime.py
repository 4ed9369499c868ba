# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""NVIDIA's runtime in the configuration of a container runtime, written by nvidia-ctk."""

from __future__ import annotations

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import restarts
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.runtimes import (
    HANDLER,
    RUNTIMES,
    configuration,
    nvidia_program,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_TIMEOUT_S = 60.0
_BY_NAME = {runtime.name: runtime for runtime in RUNTIMES if runtime.distribution is None}
# From version 1.18 on, nvidia-ctk writes a file of its own. Its default paths have been wrong: 1.18.0 wrote to
# /etc/containerd/config.d, and up to May 2026 it wrote to /etc/crio/conf.d, which CRI-O does not read.
_DROP_IN_OPTION = "--drop-in-config"
_DROP_INS = {"containerd": "/etc/containerd/conf.d/99-nvidia.toml", "crio": "/etc/crio/crio.conf.d/99-nvidia.conf"}
TOOLKIT_CONTAINER = "/usr/local/nvidia/"
"""Where the operator's toolkit container puts its programs, which go when it goes."""


def configure(host: Host, options: t.Mapping[str, t.Any], check_mode: bool) -> Json:
    """Add NVIDIA's runtime, and return the module's result. In check mode, nvidia-ctk itself predicts the text."""
    name, default = options["name"], options["default"]
    unit = f"{name}.service"
    gap = _gap(host, name, default)
    if not gap:
        return {"changed": False, "diff": [], "restart": unit in restarts.owed(host)}
    command = _command(host, name, default)
    before = _texts(host, name)
    if check_mode:
        return {"changed": True, "diff": [_predicted(host, name, command)], "restart": True}
    restarts.leave_mark(host, unit)
    output = host.run(command, _TIMEOUT_S)
    if _texts(host, name) == before:
        restarts.remove_mark(host, unit)
    if not output.ok:
        raise GpuOpsError(f"nvidia-ctk could not configure {name}: {output.error}.", reason="Unsupported")
    gap = _gap(host, name, default)
    if gap:
        raise GpuOpsError(f"nvidia-ctk ended without an error, but {gap}.", reason="Unsupported")
    after = _texts(host, name)
    changed = [path for path in after if before.get(path) != after[path]]
    diffs = [_diff(path, before.get(path, ""), after[path]) for path in changed]
    return {"changed": True, "diff": diffs, "restart": True}


def _gap(host: Host, name: str, default: bool) -> str:
    """Return what the runtime lacks to run containers with NVIDIA's runtime, or an empty string."""
    main, settings = configuration(host, _BY_NAME[name])
    program = nvidia_program(host, settings)
    if not settings.cri:
        return f"disabled_plugins in {main} turns off CRI, so that {name} serves no Kubernetes"
    if HANDLER not in settings.handlers:
        return f"the configuration of {name} has no runtime {HANDLER}: see whether {name} uses another file"
    if program is None:
        named = settings.handlers[HANDLER] or "nothing"
        return f"the program of the runtime {HANDLER} of {name} cannot be run: its configuration names {named}"
    if program.startswith(TOOLKIT_CONTAINER):
        return f"the runtime {HANDLER} of {name} runs {program}, which belongs to the operator's toolkit container"
    if default and settings.default != HANDLER:
        return f"the default runtime of {name} is {settings.default or 'not set'}"
    return ""


def _command(host: Host, name: str, default: bool) -> list[str]:
    command = ["nvidia-ctk", "runtime", "configure", f"--runtime={name}", *(["--set-as-default"] if default else [])]
    if name in _DROP_INS and _DROP_IN_OPTION in host.run(["nvidia-ctk", "runtime", "configure", "--help"]).stdout:
        command.append(f"{_DROP_IN_OPTION}={_DROP_INS[name]}")
    return command


def _texts(host: Host, name: str) -> dict[str, str]:
    paths = [path for pattern in _BY_NAME[name].configs for path in host.glob(pattern)]
    drop_in = _DROP_INS.get(name)
    if drop_in and host.exists(drop_in):
        paths.append(drop_in)
    return {path: f"{host.read(path) or ''}\n" for path in paths}


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
