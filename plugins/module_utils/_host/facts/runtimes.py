# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The container runtimes on the host, their configuration files, and whether NVIDIA's runtime is in these files."""

from __future__ import annotations

import dataclasses
import os
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host import software
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import nvidia_packages, runtime_config
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.runtime_config import Configuration
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host, Output
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.section import Section, known_from, unknown
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass(frozen=True)
class Runtime:
    """A container runtime as one distribution of Kubernetes installs it.

    ``configs`` and ``packages`` are patterns. Settings in a later configuration file override those in an earlier one.
    """

    name: str
    distribution: str | None
    configs: tuple[str, ...]
    units: tuple[str, ...]
    packages: tuple[str, ...] = ()


RUNTIMES = (
    Runtime(
        "containerd",
        None,
        ("/etc/containerd/config.toml",),
        ("containerd.service",),
        ("containerd", "containerd.io"),
    ),
    Runtime(
        "containerd",
        "k3s",
        ("/var/lib/rancher/k3s/agent/etc/containerd/config.toml",),
        ("k3s.service", "k3s-agent.service"),
    ),
    Runtime(
        "containerd",
        "rke2",
        ("/var/lib/rancher/rke2/agent/etc/containerd/config.toml",),
        ("rke2-server.service", "rke2-agent.service"),
    ),
    Runtime(
        "containerd",
        "microk8s",
        ("/var/snap/microk8s/current/args/containerd-template.toml", "/var/snap/microk8s/current/args/containerd.toml"),
        ("snap.microk8s.daemon-containerd.service",),
    ),
    Runtime(
        "crio",
        None,
        ("/etc/crio/crio.conf", "/etc/crio/crio.conf.d/*"),
        ("crio.service",),
        ("cri-o", "cri-o[0-9.-]*"),
    ),
    Runtime(
        "docker",
        None,
        ("/etc/docker/daemon.json",),
        ("docker.service",),
        ("docker-ce", "docker.io", "moby-engine"),
    ),
)

RUNTIME_UNITS = tuple(unit for runtime in RUNTIMES for unit in runtime.units)
RUNTIME_PACKAGES = tuple(pattern for runtime in RUNTIMES for pattern in runtime.packages)

HANDLER = "nvidia"
"""The handler that the RuntimeClass nvidia names."""


def configuration(host: Host, runtime: Runtime) -> tuple[str | None, Configuration]:
    """Return the runtime's main configuration file, or None, and the configuration from all of its files together."""
    paths = [path for pattern in runtime.configs for path in host.glob(pattern)]
    return _main_file(runtime, paths), runtime_config.combined(_read(host, runtime, paths))


def _read(host: Host, runtime: Runtime, paths: t.Sequence[str]) -> list[Configuration]:
    """Read the files and those that containerd's import, each once, in the order in which containerd reads them."""
    parse = _PARSERS.get(runtime.name)
    if parse:
        return [parse(host.read(path) or "") for path in paths]
    pending, parts, seen = list(paths), list[Configuration](), set[str]()
    while pending:
        path = pending.pop(0)
        if path in seen:
            continue
        seen.add(path)
        main_version = parts[0].version if parts else 0
        parts.append(runtime_config.parse_containerd(host.read(path) or "", main_version))
        patterns = (os.path.join(os.path.dirname(path), pattern) for pattern in parts[-1].imports)
        pending += [found for pattern in patterns for found in host.glob(os.path.normpath(pattern))]
    return parts


_PARSERS = {"crio": runtime_config.parse_crio, "docker": runtime_config.parse_docker}


def nvidia_program(host: Host, settings: Configuration) -> str | None:
    """Return the program of the handler nvidia, if it can be run.

    A driver container or a package that is gone leaves a handler without one.
    """
    program = settings.handlers.get(HANDLER)
    if program and not program.startswith("/"):
        return host.which(program)
    return program if program and host.executable(program) else None


def _main_file(runtime: Runtime, paths: t.Sequence[str]) -> str | None:
    if not paths:
        return None
    # MicroK8s makes the last file from its template, and starts containerd with it.
    return paths[-1] if runtime.distribution == "microk8s" else paths[0]


def runtimes(host: Host, packages: Output, units: Output) -> Section:
    """Return every container runtime that has a configuration file, a unit or a package on the host."""
    installed, states = software.parse_packages(packages.stdout), software.parse_units(units.stdout)
    found = (_runtime(host, runtime, installed, states, units.ok) for runtime in RUNTIMES)
    facts = [fact for fact in found if fact]
    reason = units.error or packages.error
    sources = {"": unknown(reason) if reason and not facts else known_from("files, systemd, packages")}
    hidden = [path for runtime in RUNTIMES for path in _unreadable(host, runtime)]
    if hidden:
        sources["nvidia_runtime"] = unknown(f"{first_few(hidden)} cannot be read")
    return Section(facts, sources)


def _unreadable(host: Host, runtime: Runtime) -> list[str]:
    """Return the files that only other users may read. What they say is not known, whatever the other files say."""
    return [path for pattern in runtime.configs for path in host.glob(pattern) if host.read(path) is None]


def _runtime(
    host: Host,
    runtime: Runtime,
    installed: t.Mapping[str, str],
    states: t.Mapping[str, t.Mapping[str, str]],
    units_known: bool,
) -> Json | None:
    config, settings = configuration(host, runtime)
    packages = nvidia_packages.matching(installed, runtime.packages)
    has_unit = any(states.get(unit, {}).get("LoadState") == "loaded" for unit in runtime.units)
    if not (config or packages or has_unit):
        return None
    program = nvidia_program(host, settings)
    return {
        "name": runtime.name,
        "distribution": runtime.distribution,
        "config": config,
        "cri": settings.cri,
        "nvidia_runtime": None if _unreadable(host, runtime) else program is not None,
        "nvidia_program": program,
        "default_runtime": settings.default,
        "active": any(software.is_active(states, unit) for unit in runtime.units) if units_known else None,
        "version": installed[packages[0]] if packages else None,
    }
