# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One qemu process: its command line, its monitor, and how its emulated test devices become NVIDIA's.

Software emulation only. A /dev/kvm may be one that cannot run a stock kernel (pvm), and then qemu hangs rather than fails.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import subprocess
import time
import typing as t
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError

NVIDIA = 0x10DE
DISPLAY_3D = b"\x00\x02\x03"  # programming interface, subclass, class
SNAPSHOT = "booted"

# pci-testdev's header: 1b36:0005, revision 0, class 00ff, and 36 bytes on the subsystem 1af4. nouveau says of it that it does not know the
# chip, as of a GPU that is too new. (The device `edu` reads as a chip from 1998, and nouveau crashes on it.)
TEST_DEVICE = re.compile(rb"\x36\x1b\x05\x00.{4}\x00\x00\xff\x00.{32}\xf4\x1a", re.DOTALL)


@dataclass(frozen=True)
class Shape:
    """The hardware. A saved state can only be loaded by a machine of its own shape."""

    gpus: int = 2
    device: int = 0x2330
    subsystem: int = 0x16C1
    iommu: str = "intel"
    memory_mib: int = 2048
    processors: int = 2


def command_line(shape: Shape, disk: Path, port: int, folder: Path) -> list[str]:
    """How qemu is started. -no-reboot: a reset inside qemu takes two to three times as long as a new process, so a supervisor starts one."""
    virtio = ",iommu_platform=on,disable-legacy=on" if shape.iommu != "none" else ""
    argv = [
        "qemu-system-x86_64",
        "-S",
        "-no-reboot",
        "-machine",
        "q35",
        "-accel",
        "tcg,thread=multi",
        "-cpu",
        "max,vendor=GenuineIntel",
    ]
    argv += ["-smp", str(shape.processors), "-m", str(shape.memory_mib), "-display", "none", "-nodefaults"]
    argv += ["-serial", f"file:{folder}/console.log", "-qmp", f"unix:{folder}/monitor,server=on,wait=off"]
    argv += ["-drive", f"file={disk},if=none,id=disk,cache=unsafe,discard=unmap"]
    if shape.iommu == "intel":  # before the devices that it is to serve
        argv += ["-device", "intel-iommu,intremap=on,caching-mode=on"]
    argv += ["-device", f"virtio-blk-pci,drive=disk,bootindex=0{virtio}", "-device", "virtio-rng-pci"]
    argv += [
        "-netdev",
        f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22",
        "-device",
        f"virtio-net-pci,netdev=net,romfile={virtio}",
    ]
    for index in range(shape.gpus):
        argv += ["-device", f"pcie-root-port,id=port{index},chassis={index + 1}"]
        argv += ["-device", f"pci-testdev,id=gpu{index},bus=port{index},membar=64M"]
    return argv


def start(shape: Shape, disk: Path, port: int, folder: Path, load: bool) -> subprocess.Popen[bytes]:
    """Start a machine: from its disk, or (`load`) from the state that was saved in it."""
    monitor = folder / "monitor"
    monitor.unlink(missing_ok=True)
    with (folder / "qemu.log").open("ab") as log:
        process = subprocess.Popen(
            command_line(shape, disk, port, folder), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        # The socket is there before the devices are; an answer means that they are too.
        ask(monitor, "query-status", process=process)
        disguise(process.pid, shape)
        if load:
            human(monitor, f"loadvm {SNAPSHOT}")
        ask(monitor, "cont")
    except BaseException:
        process.kill()
        raise
    return process


def save(folder: Path) -> None:
    """Stop a machine and keep its memory in its disk. The process ends."""
    monitor = folder / "monitor"
    ask(monitor, "stop")
    human(monitor, f"savevm {SNAPSHOT}")
    ask(monitor, "quit")


def disguise(pid: int, shape: Shape) -> None:
    """Give the test devices NVIDIA's identity, where qemu keeps their configuration space: in its heap. It has no option for that."""
    header = struct.pack("<HH", NVIDIA, shape.device)
    found = 0
    with Path(f"/proc/{pid}/maps").open() as maps, Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
        for line in maps:
            fields = line.split()
            if len(fields) < 6 or fields[5] != "[heap]":
                continue
            begin, end = (int(number, 16) for number in fields[0].split("-"))
            memory.seek(begin)
            content = memory.read(end - begin)
            for match in TEST_DEVICE.finditer(content):
                for offset, value in (
                    (0, header),
                    (8, b"\xa1" + DISPLAY_3D),
                    (0x2C, struct.pack("<HH", NVIDIA, shape.subsystem)),
                ):
                    memory.seek(begin + match.start() + offset)
                    memory.write(value)
                found += 1
    if found != shape.gpus:
        raise LabError(f"qemu has {shape.gpus} test devices, but {found} were found in its memory.")


def human(monitor: Path, line: str) -> None:
    """Give qemu's human monitor a command, whose only answer is a complaint."""
    complaint = ask(monitor, "human-monitor-command", {"command-line": line})
    if complaint:
        raise LabError(f"qemu: {line}: {complaint.strip()}")


def ask(
    monitor: Path,
    command: str,
    arguments: dict[str, t.Any] | None = None,
    process: subprocess.Popen[bytes] | None = None,
) -> t.Any:
    """Ask qemu's monitor."""
    with _connect(monitor, process) as connection, connection.makefile("rw") as stream:
        json.loads(stream.readline())
        answer: t.Any = None
        for request in ({"execute": "qmp_capabilities"}, {"execute": command, "arguments": arguments or {}}):
            stream.write(json.dumps(request) + "\n")
            stream.flush()
            answer = next(
                reply for reply in map(json.loads, iter(stream.readline, "")) if "return" in reply or "error" in reply
            )
    if "error" in answer:
        raise LabError(f"qemu: {command}: {answer['error']['desc']}")
    return answer["return"]


def _connect(monitor: Path, process: subprocess.Popen[bytes] | None) -> socket.socket:
    deadline = time.monotonic() + 20
    while True:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(120)
        try:
            connection.connect(str(monitor))
            return connection
        except OSError as error:
            connection.close()
            if process is not None and process.poll() is not None:
                log = (monitor.parent / "qemu.log").read_text(errors="replace").strip()
                raise LabError(f"qemu does not start: {log[-500:]}") from error
            if time.monotonic() > deadline:
                raise LabError(f"qemu's monitor does not answer: {error}") from error
            time.sleep(0.05)
