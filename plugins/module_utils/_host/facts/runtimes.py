# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The container runtimes on the host, their configuration files, and whether NVIDIA's runtime is in these files."""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import nvidia_packages, software
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.section import Section, known_from, unknown
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host, Output
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
        ("/usr/share/crio/crio.conf.d/*.conf", "/etc/crio/crio.conf", "/etc/crio/crio.conf.d/*", "/etc/crio/conf.d/*"),
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

_NVIDIA = "nvidia"


@dataclasses.dataclass(frozen=True)
class Configuration:
    """The handlers that a configuration file defines, the default handler, and the further files that it imports."""

    handlers: frozenset[str] = frozenset()
    default: str | None = None
    imports: tuple[str, ...] = ()


def parse_toml(text: str) -> Configuration:
    """Read the configuration of containerd (versions 1 to 3) or of CRI-O.

    Python has a TOML library only since 3.11, so this finds the few lines that matter.
    """
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    tables = re.findall(r"^\s*\[([^\[\]]+)\]", lines, re.MULTILINE)
    # The handler is the component after "runtimes". The tables of its options have one more component.
    handlers = (
        re.search(r"\.runtimes\.[\"']?([\w.-]+?)[\"']?(\.(options|cni\w*))?$", table.strip()) for table in tables
    )
    default = re.findall(r"^\s*default_runtime(?:_name)?\s*=\s*[\"']([^\"']*)[\"']", lines, re.MULTILINE)
    imports = re.search(r"^\s*imports\s*=\s*\[([^\]]*)\]", lines, re.MULTILINE)
    return Configuration(
        frozenset(handler[1] for handler in handlers if handler),
        default[-1] if default else None,
        tuple(re.findall(r"[\"']([^\"']+)[\"']", imports[1])) if imports else (),
    )


def parse_docker(text: str) -> Configuration:
    """Read Docker's daemon.json. An invalid file counts as an empty one."""
    try:
        settings = json.loads(text)
    except ValueError:
        return Configuration()
    if not isinstance(settings, dict):
        return Configuration()
    return Configuration(frozenset(settings.get("runtimes") or {}), settings.get("default-runtime"))


def configuration(host: Host, runtime: Runtime) -> tuple[str | None, Configuration]:
    """Return the runtime's main configuration file, or None, and the configuration from all of its files together."""
    paths = [path for pattern in runtime.configs for path in host.glob(pattern)]
    parts = _parse_files(host, runtime, paths)
    imports = [path for part in parts for pattern in part.imports for path in host.glob(pattern)]
    parts += _parse_files(host, runtime, imports)
    return _main_file(runtime, paths), _combine(parts)


def _combine(parts: t.Sequence[Configuration]) -> Configuration:
    handlers = frozenset(handler for part in parts for handler in part.handlers)
    defaults = [part.default for part in parts if part.default]
    return Configuration(handlers, defaults[-1] if defaults else None)


def _parse_files(host: Host, runtime: Runtime, paths: t.Sequence[str]) -> list[Configuration]:
    parse = parse_docker if runtime.name == "docker" else parse_toml
    return [parse(host.read(path) or "") for path in paths]


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
    return Section(facts, {"": unknown(reason) if reason and not facts else known_from("files, systemd, packages")})


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
    return {
        "name": runtime.name,
        "distribution": runtime.distribution,
        "config": config,
        "nvidia_runtime": any(handler.startswith(_NVIDIA) for handler in settings.handlers),
        "default_runtime": settings.default,
        "active": any(software.is_active(states, unit) for unit in runtime.units) if units_known else None,
        "version": installed[packages[0]] if packages else None,
    }
