# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fleets: pools of nodes, described in a YAML file, and their Node objects.

A fleet is a mapping with ``pools``, a list of `Pool`, and optionally ``nfd``. With ``nfd: chart``, the default, nodes
get the labels of Node Feature Discovery once its worker runs there; with ``preset`` they have them from the start; with
``absent`` they never get them. ``objects`` names a file in the folder ``platforms`` with what a platform brings along:
kinds of its API, or DaemonSets.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import re
import typing as t
from pathlib import Path

import yaml

from lab.cluster.api import Api, Json
from lab.errors import LabError

FLEETS = Path(__file__).parent / "fleets"
PLATFORMS = Path(__file__).parent / "platforms"
NOTE = "lab.gpuops.nvidia/"
"""Prefix of the annotations in which the lab's programs describe nodes and pods to one another."""


@dataclasses.dataclass(frozen=True)
class Model:
    """A GPU model, with the names and numbers that GPU Feature Discovery and nvidia-smi report."""

    product: str
    memory_mib: int
    family: str
    compute: str
    device_id: str
    mig: str | None
    """The table of its MIG profiles in lab/nvml; None if it does not support MIG."""
    gpus: int
    """GPUs of a typical machine."""

    @property
    def mig_capable(self) -> bool:
        """Whether the model supports MIG."""
        return self.mig is not None


MODELS = {
    "A30": Model("NVIDIA-A30", 24576, "ampere", "8.0", "20b7", "a30", 4),
    "A100": Model("NVIDIA-A100-SXM4-80GB", 81920, "ampere", "8.0", "20b2", "a100-80gb", 8),
    "H100": Model("NVIDIA-H100-80GB-HBM3", 81559, "hopper", "9.0", "2330", "h100", 8),
    "H200": Model("NVIDIA-H200", 143771, "hopper", "9.0", "2335", "h200", 8),
    "B200": Model("NVIDIA-B200", 183359, "blackwell", "10.0", "2901", "b200", 8),
    "L40S": Model("NVIDIA-L40S", 46068, "ada-lovelace", "8.9", "26b9", None, 4),
    "T4": Model("Tesla-T4", 15360, "turing", "7.5", "1eb8", None, 4),
}
KERNELS = {
    "ubuntu22.04": "5.15.0-119-generic",
    "ubuntu24.04": "6.8.0-31-generic",
    "rhel9.4": "5.14.0-427.13.1.el9_4.x86_64",
}
_CLIQUE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.\d+")
_OS_NAMES = {"ubuntu": "Ubuntu", "rhel": "Red Hat Enterprise Linux"}


@dataclasses.dataclass(frozen=True)
class Pool:
    """A number of equal nodes. ``model`` is a key of `MODELS`, or None for nodes without a GPU."""

    count: int = 1
    model: str | None = "H100"
    gpus: int | None = None
    name: str | None = None
    os: str = "ubuntu24.04"
    kernel: str | None = None
    runtime: str = "containerd://2.1.4"
    host_driver: bool = False
    """Whether the driver is installed on the host, so that no driver pod is needed."""
    clique: str | None = None
    """The NVLink fabric that joins the machines, as feature discovery writes it: cluster UUID, dot, clique ID."""
    labels: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    annotations: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    taints: tuple[Json, ...] = ()
    os_image: str | None = None
    """What the kubelet reports as its system, if that is not the name and the version of ``os``."""
    kubelet: str = ""
    """The end of the kubelet's version, by which platforms mark their builds, such as ``+rke2r1``."""
    provider: str | None = None
    """The beginning of the provider ID, which ends with the name of the node."""
    offers_gpus: bool = False
    """Whether a device plugin in the image offers the GPUs, from the start and while no other one runs."""
    machine: str = "Lab-Node"
    """The name of the machine, which GPU Feature Discovery writes into a label."""

    @property
    def number_of_gpus(self) -> int:
        """The number of GPUs of each node."""
        if self.model is None:
            return 0
        return self.gpus if self.gpus is not None else MODELS[self.model].gpus


@dataclasses.dataclass(frozen=True)
class Fleet:
    """All nodes of a lab."""

    pools: tuple[Pool, ...] = (Pool(count=4),)
    nfd: str = "chart"
    objects: str | None = None

    @property
    def size(self) -> int:
        """The number of nodes."""
        return sum(pool.count for pool in self.pools)

    def nodes(self, kubernetes: str) -> t.Iterator[Json]:
        """Yield the Node objects. ``kubernetes`` is the version of the kubelets."""
        numbers: dict[str, int] = {}
        for pool in self.pools:
            prefix = pool.name or ("gpu" if pool.model else "cpu")
            for _ in range(pool.count):
                number = numbers.get(prefix, 0)
                numbers[prefix] = number + 1
                yield _node(f"{prefix}-{number:04d}", pool, self.nfd, kubernetes)


def load(source: str | None, nodes: int | None = None) -> Fleet:
    """Load a fleet by name or path (default: 4 H100 nodes). ``nodes`` sets the size of a fleet with one pool."""
    fleet = Fleet() if source is None else _read(source)
    if nodes is None:
        return fleet
    if len(fleet.pools) != 1:
        raise LabError(
            f"--nodes needs a fleet with one pool, and {source} has {len(fleet.pools)}: "
            "set the count of each pool in its file."
        )
    if nodes < 1:
        raise LabError("--nodes must be at least 1.")
    return dataclasses.replace(fleet, pools=(dataclasses.replace(fleet.pools[0], count=nodes),))


def _read(source: str) -> Fleet:
    path = FLEETS / f"{source}.yaml"
    if not path.is_file():
        path = Path(source)
    if not path.is_file():
        known = ", ".join(sorted(item.stem for item in FLEETS.glob("*.yaml")))
        raise LabError(f"There is no fleet {source!r}: give a file, or one of {known}.")
    try:
        data = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise LabError(f"{path} is not YAML: {error}") from None
    if not isinstance(data, dict) or not isinstance(data.get("pools"), list) or not data["pools"]:
        raise LabError(f"{path}: a fleet must be a mapping with a list `pools`.")
    _known(data, {"pools", "nfd", "objects"}, str(path))
    nfd = data.get("nfd", "chart")
    if nfd not in ("chart", "preset", "absent"):
        raise LabError(f"{path}: nfd is {nfd!r}; it must be chart, preset or absent.")
    objects = data.get("objects")
    if objects is not None and not (PLATFORMS / f"{objects}.yaml").is_file():
        known = ", ".join(sorted(item.stem for item in PLATFORMS.glob("*.yaml")))
        raise LabError(f"{path}: objects is {objects!r}; it must be one of {known}.")
    pools = tuple(_pool(item, f"{path}: pools[{index}]") for index, item in enumerate(data["pools"]))
    return Fleet(pools, nfd, objects)


def _pool(item: t.Any, where: str) -> Pool:
    if not isinstance(item, dict):
        raise LabError(f"{where} must be a mapping.")
    _known(item, {field.name for field in dataclasses.fields(Pool)}, where)
    pool = Pool(**{**item, "taints": tuple(item.get("taints") or ())})
    _check(pool, where)
    return pool


def _check(pool: Pool, where: str) -> None:
    if pool.model is not None and pool.model not in MODELS:
        raise LabError(f"{where}.model is {pool.model!r}; it must be null or one of {', '.join(MODELS)}.")
    if not isinstance(pool.count, int) or pool.count < 1:
        raise LabError(f"{where}.count must be a number of at least 1.")
    if pool.gpus is not None and (type(pool.gpus) is not int or pool.gpus < 0):
        raise LabError(f"{where}.gpus must be a number of at least 0.")
    if pool.clique is not None and not _CLIQUE.fullmatch(str(pool.clique)):
        raise LabError(f"{where}.clique is {pool.clique!r}; it must be a UUID, a dot and a number.")
    if pool.os not in KERNELS and pool.kernel is None:
        raise LabError(f"{where}.os is {pool.os!r}: give its kernel too, or use one of {', '.join(KERNELS)}.")


def _known(item: Json, names: set[str], where: str) -> None:
    for key in item:
        if key not in names:
            raise LabError(f"{where} has an unknown key {key!r}; the known keys are {', '.join(sorted(names))}.")


def _node(name: str, pool: Pool, nfd: str, kubernetes: str) -> Json:
    kernel = pool.kernel or KERNELS[pool.os]
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        **(nfd_labels(pool.os, kernel, pool.model is not None) if nfd == "preset" else {}),
        **pool.labels,
    }
    notes = {
        "kwok.x-k8s.io/node": "fake",
        NOTE + "model": pool.model or "",
        NOTE + "gpus": str(pool.number_of_gpus),
        NOTE + "os": pool.os,
        NOTE + "kernel": kernel,
        NOTE + "host-driver": str(pool.host_driver).lower(),
        NOTE + "nfd": nfd,
        **pool.annotations,
        **({NOTE + "own-plugin": "true"} if pool.offers_gpus else {}),
        NOTE + "machine": pool.machine,
        **({NOTE + "clique": pool.clique} if pool.clique else {}),
    }
    resources = {"cpu": "128", "memory": "1056Gi", "ephemeral-storage": "1800Gi", "pods": "110"}
    gpus = {"nvidia.com/gpu": str(pool.number_of_gpus)} if pool.offers_gpus else {}
    spec = {
        **({"taints": list(pool.taints)} if pool.taints else {}),
        **({"providerID": pool.provider + name} if pool.provider else {}),
    }
    info = _node_info(name, pool, kernel, kubernetes)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": notes},
        "spec": spec,
        "status": {"capacity": {**resources, **gpus}, "allocatable": {**resources, **gpus}, "nodeInfo": info},
    }


def _node_info(name: str, pool: Pool, kernel: str, kubernetes: str) -> Json:
    system, version = _split_os(pool.os)
    return {
        "architecture": "amd64",
        "operatingSystem": "linux",
        "osImage": pool.os_image or f"{_OS_NAMES.get(system, system)} {version}",
        "kernelVersion": kernel,
        "containerRuntimeVersion": pool.runtime,
        "kubeletVersion": kubernetes + pool.kubelet,
        "kubeProxyVersion": "",
        "bootID": name,
        "machineID": name,
        "systemUUID": name,
    }


def _split_os(name: str) -> tuple[str, str]:
    system = name.rstrip("0123456789.")
    return system, name[len(system) :]


def nfd_labels(system: str, kernel: str, gpu: bool) -> dict[str, str]:
    """Return the labels of Node Feature Discovery that the operator or this project reads."""
    prefix = "feature.node.kubernetes.io/"
    name, version = _split_os(system)
    labels = {
        # A label's value ends with a letter or a digit. Source: node-feature-discovery, source/kernel/version.go.
        prefix + "kernel-version.full": re.sub(r"[^-A-Za-z0-9_.]", "_", kernel).strip("-_."),
        prefix + "kernel-version.major": kernel.split(".", maxsplit=1)[0],
        prefix + "system-os_release.ID": name,
        prefix + "system-os_release.VERSION_ID": version,
        prefix + "system-os_release.VERSION_ID.major": version.split(".")[0],
        prefix + "cpu-hardware_multithreading": "true",
    }
    return {**labels, prefix + "pci-10de.present": "true"} if gpu else labels


def create(api: Api, fleet: Fleet, kubernetes: str) -> None:
    """Create all nodes, several at a time."""
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for _ in pool.map(lambda node: api.create("/api/v1/nodes", node), fleet.nodes(kubernetes)):
            pass
