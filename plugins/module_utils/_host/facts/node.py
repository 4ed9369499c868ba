# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""What identifies the host in a Kubernetes cluster, and whether a kubelet belongs to it.

The kubelet reports a machine ID, a system UUID, a boot ID and addresses of its own. This module reads them from the
same files as the kubelet (cAdvisor's machine/info.go and utils/sysfs), so that a node can be found whatever its name.
"""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.section import Section, known_from, unknown
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

MACHINE_ID_FILES = ("/etc/machine-id", "/var/lib/dbus/machine-id")
SYSTEM_UUID_FILES = (
    "/sys/class/dmi/id/product_uuid",
    "/proc/device-tree/system-id",
    "/proc/device-tree/vm,uuid",
)

KUBELETS = ("kubelet", "kubelite", "k3s", "k3s-server", "k3s-agent", "rke2", "k0s")
"""The names of processes that are a kubelet or contain one (/proc/<pid>/comm)."""

KUBELET_FILES = (
    "/etc/kubernetes/kubelet.conf",
    "/var/lib/kubelet/pki",
    "/var/lib/kubelet/kubeconfig",
    "/var/lib/rancher/k3s/agent",
    "/var/lib/rancher/rke2/agent",
    "/var/snap/microk8s/current/credentials/kubelet.config",
    "/var/lib/k0s/kubelet",
)
"""What a kubelet leaves on the host of a node. `kubeadm reset` and the uninstallers remove these again."""

_LOCAL_IPV4 = re.compile(r"\|-- (?P<address>[0-9.]+)\n\s+/32 host LOCAL")
_MEANINGLESS = ("", "0" * 32, "f" * 32, "uninitialized")


def node(host: Host) -> Section:
    """Return what identifies the host in a cluster, and its kubelet."""
    facts: Json = {
        "machine_id": _first(host, MACHINE_ID_FILES),
        "system_uuid": _first(host, SYSTEM_UUID_FILES),
        "boot_id": host.read("/proc/sys/kernel/random/boot_id"),
        "hostname": host.read("/proc/sys/kernel/hostname"),
        "addresses": addresses(host),
        "kubelet": kubelet(host),
    }
    sources = {
        "machine_id": _source(facts["machine_id"], MACHINE_ID_FILES[0]),
        "system_uuid": _source(facts["system_uuid"], SYSTEM_UUID_FILES[0]),
        "boot_id": _source(facts["boot_id"], "/proc/sys/kernel/random/boot_id"),
        "hostname": _source(facts["hostname"], "/proc/sys/kernel/hostname"),
        "addresses": known_from("/proc/net"),
        "kubelet": known_from("/proc"),
    }
    return Section(facts, sources)


def _source(value: t.Any, path: str) -> dict[str, str | None]:
    return known_from(path) if value is not None else unknown(f"{path} cannot be read or is empty")


def _first(host: Host, paths: t.Iterable[str]) -> str | None:
    """Return the first identity that is one: firmware may report zeros, and an image an empty machine ID."""
    texts = ((host.read(path) or "").strip(" \t\n\0") for path in paths)
    return next((text for text in texts if text.replace("-", "").lower() not in _MEANINGLESS), None)


def addresses(host: Host) -> list[str]:
    """Return the host's addresses, without those that every host has (loopback and link-local ones)."""
    found = _LOCAL_IPV4.findall(f"{host.read('/proc/net/fib_trie') or ''}\n")
    found += [_ipv6(line.split()[0]) for line in (host.read("/proc/net/if_inet6") or "").splitlines() if line.strip()]
    parsed = {ipaddress.ip_address(text) for text in found if _is_address(text)}
    own = [address for address in parsed if not address.is_loopback and not address.is_link_local]
    return [str(address) for address in sorted(own, key=lambda address: (address.version, int(address)))]


def _ipv6(digits: str) -> str:
    return ":".join(digits[i : i + 4] for i in range(0, 32, 4))


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def kubelet(host: Host) -> Json:
    """Return whether a kubelet runs on the host or belongs to it, and what says so."""
    running = sorted({name for name in _processes(host) if name in KUBELETS})
    if running:
        return {"present": True, "active": True, "by": f"the process {running[0]}"}
    left = next((path for path in KUBELET_FILES if host.exists(path)), None)
    return {"present": left is not None, "active": False, "by": left}


def _processes(host: Host) -> t.Iterator[str]:
    for path in host.glob("/proc/[0-9]*/comm"):
        yield host.read(path) or ""
