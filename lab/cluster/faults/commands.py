# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command ``python -m lab cluster fault``."""

from __future__ import annotations

import argparse
import functools
import json
import typing as t

from lab.cluster import faults
from lab.cluster.faults import drivers
from lab.cluster.faults.mig import TROUBLES
from lab.cluster.faults.nodes import MAINTAINERS, NODE_FAULTS, SLICE_FAULTS
from lab.cluster.faults.operands import DRIVER, POD_FAULTS
from lab.cluster.faults.refusals import REFUSALS
from lab.cluster.lab import Lab

Change = t.Callable[[Lab, argparse.Namespace], None]
_APP = "label `app` of the pods, such as nvidia-driver-daemonset"


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add the faults to the command ``fault``. Each sets ``change``, the function that injects or clears faults."""
    commands = parser.add_subparsers(required=True, metavar="FAULT")
    _operand_commands(commands)
    _say_command(commands)
    _driver_command(commands)
    _node_commands(commands)
    _mig_command(commands)
    _policy_commands(commands)
    _command(commands, "operator-down", "Kill the operator's process.", lambda lab, given: faults.operator_down(lab))
    again = "Let the operator's process crash and start again."
    _command(commands, "restart-operator", again, lambda lab, given: faults.restart_operator(lab))
    stuck = "Roll the operator out with a pod that never starts."
    _command(commands, "operator-stuck", stuck, lambda lab, given: faults.stuck_operator(lab))
    stale = "Stop the stand-in's status updates."
    _command(commands, "stale-status", stale, lambda lab, given: faults.stale_status(lab))
    _command(commands, "clear", "Clear all faults.", lambda lab, given: faults.clear(lab))
    _command(commands, "list", "Change nothing.", lambda lab, given: None)


def _operand_commands(commands: t.Any) -> None:
    pods = _command(commands, "operand", "Keep the pods of an operand from starting.", _operand)
    pods.add_argument("app", help=_APP)
    pods.add_argument("fault", choices=POD_FAULTS)
    pods.add_argument("--node", help="only on this node (default: on every node)")
    pods.add_argument(
        "--heals-after", type=float, metavar="SECONDS", help="end the trouble of each pod after this time"
    )
    late = _command(
        commands,
        "slow-driver",
        "Delay the start of new driver pods.",
        lambda lab, g: faults.slow(lab, DRIVER, g.seconds),
    )
    late.add_argument("seconds", type=int)
    refused = _command(
        commands, "refuse", "Refuse new pods of an operand.", lambda lab, g: faults.refuse(lab, g.app, g.by)
    )
    refused.add_argument("app", help=_APP)
    refused.add_argument("by", choices=list(REFUSALS))
    mirrored = _command(commands, "mirror", "Replace the registry in the images of an operand.", _mirror)
    mirrored.add_argument("app", help=_APP)
    mirrored.add_argument("registry")
    mirrored.add_argument("--controllers", action="store_true", help="rewrite the DaemonSet, not its pods")
    meshed = _command(
        commands, "sidecar", "Add a container to the pods of an operand.", lambda lab, g: faults.sidecar(lab, g.app)
    )
    meshed.add_argument("app", help=_APP)


def _driver_command(commands: t.Any) -> None:
    future = _command(commands, "driver", "Give future driver pods a trouble.", _driver)
    future.add_argument("trouble", choices=drivers.TROUBLES)
    future.add_argument("--node", help="only on this node (default: on every node)")
    future.add_argument("--version", help="only images whose tags begin so (default: every image)")
    future.add_argument("--seconds", type=float, help="how long a slow build takes")
    future.add_argument(
        "--heals-after", type=float, metavar="SECONDS", help="end the trouble of each pod after this time"
    )


def _node_commands(commands: t.Any) -> None:
    machine = _command(
        commands,
        "node",
        "Make a node NotReady, take it down, or give it a NoExecute taint.",
        lambda lab, given: faults.node(lab, given.node, given.fault),
    )
    machine.add_argument("node", help="name of the node")
    machine.add_argument("fault", choices=NODE_FAULTS)
    silent = _command(
        commands,
        "exporter",
        "Let the exporter of a node serve the metrics of fewer GPUs.",
        lambda lab, given: faults.exporter(lab, given.node, given.gpus),
    )
    silent.add_argument("node", help="name of the node")
    silent.add_argument("gpus", type=int, help="number of GPUs that it still sees")
    broken = _command(
        commands,
        "xid",
        "Let a node's first GPU have an Xid error.",
        lambda lab, given: faults.xid(lab, given.node, given.code),
    )
    broken.add_argument("node", help="name of the node")
    broken.add_argument("code", type=int, help="number of the error, such as 79")
    lost = "Let a GPU of a node be lost, as a DRA driver that looks for it reports it."
    gone = _command(commands, "lost-gpu", lost, lambda lab, given: faults.lost_gpu(lab, given.node))
    gone.add_argument("node", help="name of the node")
    published = "Let the DRA driver of a node publish too few ResourceSlices, or leave an old one behind."
    few = _command(commands, "slices", published, lambda lab, given: faults.slices(lab, given.node, given.fault))
    few.add_argument("node", help="name of the node")
    few.add_argument("fault", choices=SLICE_FAULTS)
    mute = _command(
        commands,
        "silent-driver",
        "Let the driver of a node answer no more, as its node status exporter reports it.",
        lambda lab, given: faults.silent_driver(lab, given.node),
    )
    mute.add_argument("node", help="name of the node")
    sick = _command(
        commands,
        "unhealthy",
        "Let the device plugin of a node report devices as unhealthy.",
        lambda lab, given: faults.unhealthy(lab, given.node, given.devices),
    )
    sick.add_argument("node", help="name of the node")
    sick.add_argument("devices", type=int, help="number of devices, of the node's first resource")
    bound = "Let vfio-pci get some GPUs of a node not, although its vfio-manager is Ready."
    left = _command(commands, "unbound", bound, lambda lab, given: faults.unbound(lab, given.node, given.gpus))
    left.add_argument("node", help="name of the node")
    left.add_argument("gpus", type=int, help="number of GPUs that stay unbound")
    made = "Let the vGPU device manager of a node fail."
    none = _command(commands, "failed-vgpus", made, lambda lab, given: faults.failed_vgpus(lab, given.node))
    none.add_argument("node", help="name of the node")
    for name, summary, change in (
        ("cordon", "Cordon a node as another maintainer does, with its marks.", faults.cordon),
        ("uncordon", "Put a node back as another maintainer does.", faults.uncordon),
    ):
        taken = _command(commands, name, summary, lambda lab, g, change=change: change(lab, g.node, g.by))  # type: ignore[misc]
        taken.add_argument("node", help="name of the node")
        taken.add_argument("--by", choices=list(MAINTAINERS), default="person", help="default: %(default)s")


def _mig_command(commands: t.Any) -> None:
    layout = _command(
        commands,
        "mig",
        "Give a node's MIG manager a trouble with its next change.",
        lambda lab, given: faults.mig(lab, given.node, given.trouble),
    )
    layout.add_argument("node", help="name of the node")
    layout.add_argument("trouble", choices=TROUBLES)


def _policy_commands(commands: t.Any) -> None:
    second = "Create a second ClusterPolicy."
    _command(commands, "second-policy", second, lambda lab, given: faults.second_policy(lab))
    edited = _command(
        commands,
        "edit-policy",
        "Change the ClusterPolicy as another manager.",
        lambda lab, given: faults.edit_policy(lab, given.spec, given.manager),
    )
    edited.add_argument("spec", type=json.loads, help="the fields to change, as JSON")
    edited.add_argument("--manager", default="kubectl-edit", help="name of the manager (default: %(default)s)")


def _command(commands: t.Any, name: str, summary: str, change: Change) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=summary)
    parser.set_defaults(change=change)
    # The command `fault` has this option and its default already. Here it may also follow the name of the fault.
    parser.add_argument("--name", default=argparse.SUPPRESS, help="name of the lab")
    return parser


def _say_command(commands: t.Any) -> None:
    for name, summary, change in (
        ("say", "Let a container write other lines into its log.", faults.say),
        ("crash", "Let a container write these lines and crash.", faults.crash),
    ):
        said = _command(commands, name, summary, functools.partial(_say, change))
        said.add_argument("app", help=_APP)
        said.add_argument("node", help="name of the node")
        said.add_argument("container", help="name of the container")
        said.add_argument("lines", nargs="+", metavar="LINE", help="a line of the log")


def _say(change: t.Callable[..., str], lab: Lab, given: argparse.Namespace) -> None:
    change(lab, given.app, given.node, given.container, given.lines)


def _operand(lab: Lab, given: argparse.Namespace) -> None:
    faults.operand(lab, given.app, given.fault, given.node, given.heals_after)


def _driver(lab: Lab, given: argparse.Namespace) -> None:
    words = {name: getattr(given, name) for name in ("node", "version", "seconds", "heals_after")}
    faults.driver(lab, given.trouble, **words)


def _mirror(lab: Lab, given: argparse.Namespace) -> None:
    faults.mirror(lab, given.registry, given.app, controllers=given.controllers)
