# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One qemu process: its command line, its monitor, and the NVIDIA identity of its emulated test devices.

It uses software emulation only: with a /dev/kvm that cannot run a stock kernel (pvm), qemu hangs instead of failing.
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

# The header of pci-testdev: 1b36:0005, revision 0, class 00ff, and 36 bytes later the subsystem 1af4. nouveau reports
# an unknown chip, as on a GPU that is too new. (It takes the device `edu` for a chip from 1998 and crashes.)
TEST_DEVICE = re.compile(rb"\x36\x1b\x05\x00.{4}\x00\x00\xff\x00.{32}\xf4\x1a", re.DOTALL)


@dataclass(frozen=True)
class Shape:
    """The hardware. Only a machine of the same shape can load a saved state."""

    gpus: int = 2
    device: int = 0x2330
    subsystem: int = 0x16C1
    iommu: str = "intel"
    memory_mib: int = 2048
    processors: int = 2


def command_line(shape: Shape, disk: Path, port: int, folder: Path) -> list[str]:
    """Return qemu's command line.

    -no-reboot ends qemu when the guest reboots: a new process is two to three times as fast as a reset inside qemu.
    """
    virtio = ",iommu_platform=on,disable-legacy=on" if shape.iommu != "none" else ""
    argv = ["qemu-system-x86_64", "-S", "-no-reboot", "-machine", "q35"]
    argv += ["-accel", "tcg,thread=multi", "-cpu", "max,vendor=GenuineIntel"]
    argv += ["-smp", str(shape.processors), "-m", str(shape.memory_mib), "-display", "none", "-nodefaults"]
    argv += ["-serial", f"file:{folder}/console.log", "-qmp", f"unix:{folder}/monitor,server=on,wait=off"]
    argv += ["-drive", f"file={disk},if=none,id=disk,cache=unsafe,discard=unmap"]
    if shape.iommu == "intel":  # It must precede the devices that it serves.
        argv += ["-device", "intel-iommu,intremap=on,caching-mode=on"]
    argv += ["-device", f"virtio-blk-pci,drive=disk,bootindex=0{virtio}", "-device", "virtio-rng-pci"]
    argv += ["-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22"]
    argv += ["-device", f"virtio-net-pci,netdev=net,romfile={virtio}"]
    for index in range(shape.gpus):
        argv += ["-device", f"pcie-root-port,id=port{index},chassis={index + 1}"]
        argv += ["-device", f"pci-testdev,id=gpu{index},bus=port{index},membar=64M"]
    return argv


def start(shape: Shape, disk: Path, port: int, folder: Path, load: bool) -> subprocess.Popen[bytes]:
    """Start a machine from its disk, or with ``load`` from the state that was saved in the disk."""
    monitor = folder / "monitor"
    monitor.unlink(missing_ok=True)
    with (folder / "qemu.log").open("ab") as log:
        process = subprocess.Popen(
            command_line(shape, disk, port, folder), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        # The socket exists before the devices do. An answer means that both exist.
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
    """Stop a machine and save its memory in its disk. The process ends."""
    monitor = folder / "monitor"
    ask(monitor, "stop")
    human(monitor, f"savevm {SNAPSHOT}")
    ask(monitor, "quit")


def disguise(pid: int, shape: Shape) -> None:
    """Write NVIDIA's identity over that of the test devices, in qemu's heap: qemu has no option for it."""
    identity = {
        0: struct.pack("<HH", NVIDIA, shape.device),
        8: b"\xa1" + DISPLAY_3D,
        0x2C: struct.pack("<HH", NVIDIA, shape.subsystem),
    }
    with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
        headers = [header for begin, end in _heaps(pid) for header in _test_devices(memory, begin, end)]
        for header in headers:
            for offset, value in identity.items():
                memory.seek(header + offset)
                memory.write(value)
    if len(headers) != shape.gpus:
        raise LabError(f"qemu has {shape.gpus} test devices, but {len(headers)} were found in its memory.")


def _heaps(pid: int) -> t.Iterator[tuple[int, int]]:
    """Yield the start and the end of each heap of a process."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        fields = line.split()
        if fields[5:] == ["[heap]"]:
            begin, end = fields[0].split("-")
            yield int(begin, 16), int(end, 16)


def _test_devices(memory: t.BinaryIO, begin: int, end: int) -> list[int]:
    """Return the addresses of the test devices' headers in a range of memory."""
    memory.seek(begin)
    return [begin + match.start() for match in TEST_DEVICE.finditer(memory.read(end - begin))]


def human(monitor: Path, line: str) -> None:
    """Run a command of qemu's human monitor, which answers only to report an error."""
    error = ask(monitor, "human-monitor-command", {"command-line": line})
    if error:
        raise LabError(f"qemu: {line}: {error.strip()}")


def ask(
    monitor: Path,
    command: str,
    arguments: dict[str, t.Any] | None = None,
    process: subprocess.Popen[bytes] | None = None,
) -> t.Any:
    """Run a command of qemu's monitor and return the answer."""
    with _connect(monitor, process) as connection, connection.makefile("rw") as stream:
        json.loads(stream.readline())
        answer: t.Any = None
        for request in ({"execute": "qmp_capabilities"}, {"execute": command, "arguments": arguments or {}}):
            stream.write(json.dumps(request) + "\n")
            stream.flush()
            messages = map(json.loads, iter(stream.readline, ""))
            answer = next(message for message in messages if "return" in message or "error" in message)
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
                raise LabError(f"qemu did not start: {log[-500:]}") from error
            if time.monotonic() > deadline:
                raise LabError(f"qemu's monitor does not answer: {error}") from error
            time.sleep(0.05)
