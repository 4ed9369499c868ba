# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The output of `kubectl logs`: a file for each container that users look into, and one line for all others."""

from __future__ import annotations

import typing as t
from pathlib import Path

import yaml

from lab.cluster.api import Json, now

API = "kwok.x-k8s.io/v1alpha1"

LOGS = {
    "workload": [
        "[Vector addition of 50000 elements]",
        "Copy input data from the host memory to the CUDA device",
        "CUDA kernel launch with 196 blocks of 256 threads",
        "Copy output data from the CUDA device to the host memory",
        "Test PASSED",
        "Done",
    ],
    "nvidia-cuda-validator": ["cuda workload validation is successful"],
    "nvidia-driver-ctr": ["Starting NVIDIA persistence daemon...", "Done, now waiting for signal"],
    "nvidia-device-plugin": [
        "Starting GRPC server for 'nvidia.com/gpu'",
        "Registered device plugin for 'nvidia.com/gpu' with Kubelet",
    ],
    "nvidia-operator-validator": ["all validations are successful"],
    "": ["This container is simulated and writes no log."],
}


def log_file(folder: Path, name: str, lines: t.Sequence[str]) -> Path:
    """Write lines in the format of container runtimes, and return the path of the file."""
    path = folder / f"{name}.log"
    path.write_text("".join(f"{now()[:-1]}.000000000Z stdout F {line}\n" for line in lines))
    return path


def path(namespace: str, pod: str) -> str:
    """Return the path of a pod's `Logs`."""
    return f"/apis/{API}/namespaces/{namespace}/logs/{pod}"


def spec(folder: Path, pod: str, container: str, lines: t.Sequence[str]) -> Json:
    """Write what one container of a pod says, now and in its previous run, and return the spec of the pod's `Logs`.

    The other containers of the pod say that they are simulated.
    """
    silent = str(folder / "any.log")
    said = str(log_file(folder, f"{pod}-{container}", lines))
    logs: list[Json] = [{"logsFile": silent, "previousLogsFile": silent}]
    return {"logs": [{"containers": [container], "logsFile": said, "previousLogsFile": said}, *logs]}


def write(folder: Path) -> Path:
    """Write the logs in the format of container runtimes, and the configuration that names them; return its path."""
    folder.mkdir()
    logs = []
    for container, lines in LOGS.items():
        path = log_file(folder, container or "any", lines)
        names = {"containers": [container]} if container else {}
        logs.append({"logsFile": str(path), "previousLogsFile": str(path), **names})
    config = {
        "apiVersion": API,
        "kind": "ClusterLogs",
        "metadata": {"name": "logs"},
        "spec": {"logs": logs},
    }
    file = folder / "kwok.yaml"
    file.write_text(yaml.safe_dump(config))
    return file
