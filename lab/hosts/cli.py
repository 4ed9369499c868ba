# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands ``python -m lab hosts``, ``vm``, ``browser`` and ``images``."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import typing as t

import yaml

from lab.errors import LabError, UnavailableError
from lab.hosts import packages
from lab.hosts.containers.hosts import ContainerHosts, Machine
from lab.hosts.containers.image.machine.spec import MODELS, NVSWITCHES
from lab.hosts.containers.images import FLAVOURS
from lab.hosts.vm import image
from lab.hosts.vm.hosts import VmHost
from lab.hosts.vm.qemu import Shape


def add_container_commands(commands: t.Any) -> None:
    """Add the commands of ``python -m lab hosts``."""
    up = _command(commands, "up", _containers_up, "Start container hosts and wait until they are up.")
    up.add_argument(
        "--flavour",
        action="append",
        type=_flavour,
        metavar="FLAVOUR[=N]",
        help=f"start N hosts (default: 1) of {' or '.join(FLAVOURS)}; may be repeated (default: one of each)",
    )
    up.add_argument("--model", choices=MODELS, default="h100-sxm", help="GPU model (default: %(default)s)")
    up.add_argument("--gpus", type=int, default=2, help="GPUs of each host (default: %(default)s)")
    up.add_argument("--nvswitches", type=int, default=0, help="NVSwitches of each host (default: %(default)s)")
    up.add_argument("--cpu", choices=["intel", "amd"], default="intel", help="CPU vendor (default: %(default)s)")
    _command(commands, "status", _containers_status, "List the container hosts.")
    _command(commands, "inventory", _containers_inventory, "Print an Ansible inventory of the container hosts.")
    _command(commands, "down", _containers_down, "Remove the container hosts.")
    _tools_command(commands, "containers")


def add_vm_commands(commands: t.Any) -> None:
    """Add the commands of ``python -m lab vm``."""
    up = _command(commands, "up", _vm_up, "Start a virtual machine and wait until SSH answers.")
    up.add_argument("--cold", action="store_true", help="boot the machine instead of loading its saved state")
    up.add_argument("--gpus", type=int, default=2, help="GPUs (default: %(default)s)")
    up.add_argument("--iommu", choices=["intel", "none"], default="intel", help="IOMMU (default: %(default)s)")
    _command(commands, "build", _vm_build, "Build the disk of the machines if it does not exist, and print its path.")
    _command(commands, "status", _vm_status, "Show whether the machine runs, and the end of its console.")
    _command(commands, "inventory", _vm_inventory, "Print an Ansible inventory with the machine.")
    ssh = _command(commands, "ssh", _vm_ssh, "Run a command on the machine, or log in.")
    ssh.add_argument("rest", nargs=argparse.REMAINDER, metavar="COMMAND")
    _command(commands, "down", _vm_down, "Stop the machine and remove its state.")
    _tools_command(commands, "vm")


def add_browser_commands(commands: t.Any) -> None:
    """Add the commands of ``python -m lab browser``."""
    _tools_command(commands, "browser")


def add_images_commands(commands: t.Any) -> None:
    """Add the commands of ``python -m lab images``."""
    _tools_command(commands, "images")


def _tools_command(commands: t.Any, kind: packages.Kind) -> None:
    summary = "Install the Debian packages that this needs, or print what is missing if this is not possible."
    commands.add_parser("tools", help=summary, description=summary).set_defaults(run=_tools, kind=kind)


def _command(
    commands: t.Any, name: str, run: t.Callable[[argparse.Namespace], None], summary: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=summary)
    parser.set_defaults(run=run)
    parser.add_argument("--name", default="default", help="name of the hosts (default: %(default)s)")
    return parser


def _flavour(text: str) -> tuple[str, int]:
    flavour, equals, count = text.partition("=")
    count = count if equals else "1"
    if flavour not in FLAVOURS or not count.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not FLAVOUR or FLAVOUR=N with one of {', '.join(FLAVOURS)}")
    return flavour, int(count)


def _tools(arguments: argparse.Namespace) -> None:
    try:
        packages.provide(arguments.kind, _say)
        _say(f"{arguments.kind}: all packages are installed.")
    except UnavailableError as reason:
        _say(f"{arguments.kind}: cannot run on this machine. {reason}")


def _containers_up(arguments: argparse.Namespace) -> None:
    if arguments.nvswitches and arguments.model not in NVSWITCHES:
        raise LabError(
            f"{arguments.model} has no NVSwitches. Leave out --nvswitches or choose {', '.join(NVSWITCHES)}."
        )
    counts = dict(arguments.flavour or [(flavour, 1) for flavour in FLAVOURS])
    packages.provide("containers", _say)
    started = time.monotonic()
    machine = Machine(model=arguments.model, gpus=arguments.gpus, nvswitches=arguments.nvswitches, cpu=arguments.cpu)
    hosts = ContainerHosts(arguments.name, _say).up(counts, machine)
    _say(f"{', '.join(host.name for host in hosts)}: up after {time.monotonic() - started:.1f} s")


def _containers_status(arguments: argparse.Namespace) -> None:
    hosts = ContainerHosts(arguments.name).hosts()
    for host in hosts:
        _say(f"{host.name}  {host.flavour}")
    if not hosts:
        _say(_none(arguments.name))


def _containers_inventory(arguments: argparse.Namespace) -> None:
    print(yaml.safe_dump(ContainerHosts(arguments.name).inventory(), sort_keys=False), end="")


def _containers_down(arguments: argparse.Namespace) -> None:
    count = ContainerHosts(arguments.name).down()
    _say(f"Removed {count} container hosts." if count else _none(arguments.name))


def _none(name: str) -> str:
    return f"There are no container hosts in the set {name}."


def _vm_up(arguments: argparse.Namespace) -> None:
    packages.provide("vm", _say)
    started = time.monotonic()
    VmHost(arguments.name, _say).up(Shape(gpus=arguments.gpus, iommu=arguments.iommu), cold=arguments.cold)
    _say(f"{arguments.name}: up after {time.monotonic() - started:.1f} s")


def _vm_build(arguments: argparse.Namespace) -> None:
    del arguments
    packages.provide("vm", _say)
    image.provide(_say)
    _say(str(image.disk()))


def _vm_status(arguments: argparse.Namespace) -> None:
    host = VmHost(arguments.name)
    _say(f"{host.name}: {host.status()}")
    if host.status() != "absent":
        _say(f"SSH port {host.settings.port}, {host.boots} boots. The end of its console:\n{host.console_end()}")


def _vm_inventory(arguments: argparse.Namespace) -> None:
    print(yaml.safe_dump(VmHost(arguments.name).inventory(), sort_keys=False), end="")


def _vm_ssh(arguments: argparse.Namespace) -> None:
    sys.exit(subprocess.run(VmHost(arguments.name).ssh(*arguments.rest), check=False).returncode)


def _vm_down(arguments: argparse.Namespace) -> None:
    removed = VmHost(arguments.name).down()
    _say(
        f"Removed the virtual machine {arguments.name}."
        if removed
        else f"There is no virtual machine {arguments.name}."
    )


def _say(line: str) -> None:
    print(line, flush=True)
