# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's command line: ``python -m lab cluster``, ``hosts`` and ``vm``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import typing as t

from lab.cluster import cli as cluster
from lab.errors import LabError, UnavailableError
from lab.hosts import cli as hosts
from lab.nvml import cli as nvml

FAILED = 1
UNAVAILABLE = 3
INTERRUPTED = 128 + signal.SIGINT
OUTPUT_CLOSED = 128 + signal.SIGPIPE


def main(argv: t.Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 3 if this machine cannot run such hosts, 1 for any other failure."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        return _run(argv)
    except UnavailableError as reason:
        print(f"lab: {reason}", file=sys.stderr)
        return UNAVAILABLE
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("lab: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has closed the pipe, as `head` does. Python would report the rest of its buffer as lost at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OUTPUT_CLOSED


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = argparse.ArgumentParser(prog="python -m lab", description="Simulated GPU clusters and GPU hosts.")
    kinds = top.add_subparsers(required=True, metavar="KIND")
    for name, summary, add in (
        ("cluster", "a real Kubernetes control plane with simulated GPU nodes, on loopback", cluster.add_commands),
        ("hosts", "container hosts: systemd, packages and a boot loader in containers", hosts.add_container_commands),
        ("vm", "a virtual machine in software emulation: a real kernel and real reboots", hosts.add_vm_commands),
        ("browser", "a browser for the tests of pages", hosts.add_browser_commands),
        ("images", "a program that copies images", hosts.add_images_commands),
        ("nvml", "a simulated NVML, for programs that look for GPUs", nvml.add_commands),
    ):
        kind = kinds.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        add(kind.add_subparsers(required=True, metavar="COMMAND"))
    return top


def _run(argv: t.Sequence[str] | None) -> int:
    try:
        arguments = parser().parse_args(argv)
        return int(arguments.run(arguments) or 0)
    finally:
        # Also for `--help`, after which argparse exits: a closed pipe must show here, where main() can handle it.
        print(end="", flush=True)


def _terminate(number: int, frame: object) -> t.NoReturn:
    """End the command as Ctrl-C does, so that `up` removes what it has started. A second SIGTERM is ignored."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)
