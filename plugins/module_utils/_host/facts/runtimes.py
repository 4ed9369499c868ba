# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Container runtimes on the host, where each distribution of Kubernetes keeps their configuration, and NVIDIA's runtime in it."""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.section import Section, known, missing
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.services import (
    is_active,
    parse_packages,
    parse_units,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host, Output
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json


@dataclasses.dataclass(frozen=True)
class Runtime:
    """A container runtime as one distribution installs it. Later configuration files win; ``packages`` is a pattern."""

    name: str
    distribution: str | None
    configs: tuple[str, ...]
    units: tuple[str, ...]
    packages: str | None = None


RUNTIMES = (
    Runtime("containerd", None, ("/etc/containerd/config.toml",), ("containerd.service",), r"containerd(\.io)?"),
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
        r"cri-o([\d.-].*)?",
    ),
    Runtime("docker", None, ("/etc/docker/daemon.json",), ("docker.service",), r"docker-ce|docker\.io|moby-engine"),
)

_NVIDIA = "nvidia"


@dataclasses.dataclass(frozen=True)
class Configuration:
    """What a configuration file says of runtimes: the handlers that it defines, the default one, further files that it reads."""

    handlers: frozenset[str] = frozenset()
    default: str | None = None
    imports: tuple[str, ...] = ()


def parse_toml(text: str) -> Configuration:
    """Read containerd's (versions 1 to 3) or CRI-O's configuration, without a TOML library, which Python has only since 3.11."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    tables = re.findall(r"^\s*\[([^\[\]]+)\]", lines, re.MULTILINE)
    # The handler is the component after "runtimes"; tables of its options follow after a further dot.
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
    """Read Docker's daemon.json; a broken one says nothing."""
    try:
        settings = json.loads(text)
    except ValueError:
        return Configuration()
    if not isinstance(settings, dict):
        return Configuration()
    return Configuration(frozenset(settings.get("runtimes") or {}), settings.get("default-runtime"))


def configuration(host: Host, runtime: Runtime) -> tuple[str | None, Configuration]:
    """Return the runtime's main configuration file, or None without one, and what all of its files say together."""
    parse = parse_docker if runtime.name == "docker" else parse_toml
    paths = [path for pattern in runtime.configs for path in host.glob(pattern)]
    read = [parse(host.read(path) or "") for path in paths]
    imported = [path for said in read for pattern in said.imports for path in host.glob(pattern)]
    read += [parse(host.read(path) or "") for path in imported]
    handlers = frozenset(handler for said in read for handler in said.handlers)
    default = next((said.default for said in reversed(read) if said.default), None)
    # MicroK8s starts containerd with the last one, which it makes from its template.
    return (paths[-1 if runtime.distribution == "microk8s" else 0] if paths else None), Configuration(handlers, default)


def runtimes(host: Host, packages: Output, units: Output) -> Section:
    """Return every container runtime of which the host has a configuration, a unit or a package."""
    installed, states = parse_packages(packages.stdout), parse_units(units.stdout)
    facts = [fact for fact in (_runtime(host, runtime, installed, states, units.ok) for runtime in RUNTIMES) if fact]
    reason = units.error or packages.error
    return Section(facts, {"": missing(reason) if reason and not facts else known("files, systemd, packages")})


def _runtime(
    host: Host,
    runtime: Runtime,
    installed: t.Mapping[str, str],
    states: t.Mapping[str, t.Mapping[str, str]],
    units_known: bool,
) -> Json | None:
    config, said = configuration(host, runtime)
    package = next(
        (name for name in sorted(installed) if runtime.packages and re.fullmatch(runtime.packages, name)), None
    )
    present = any(states.get(unit, {}).get("LoadState") == "loaded" for unit in runtime.units)
    if not (config or package or present):
        return None
    return {
        "name": runtime.name,
        "distribution": runtime.distribution,
        "config": config,
        "nvidia_runtime": any(handler.startswith(_NVIDIA) for handler in said.handlers),
        "default_runtime": said.default,
        "active": any(is_active(states, unit) for unit in runtime.units) if units_known else None,
        "version": installed[package] if package else None,
    }
