# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands of ``python -m lab cluster``."""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
import typing as t
from pathlib import Path

from lab.cluster import faults, monitoring, recorder
from lab.cluster.controlplane import toolchain
from lab.cluster.faults import commands as fault_commands
from lab.cluster.lab import Lab
from lab.cluster.nodes import bulk
from lab.cluster.state import Options
from lab.errors import LabError

Run = t.Callable[[argparse.Namespace], int | None]


def add_commands(commands: t.Any) -> None:
    """Add the commands to those of ``python -m lab cluster``."""
    _up_options(_command(commands, "up", _up, "Start a lab and wait until its nodes are Ready."))
    _command(commands, "down", _down, "Stop all processes of a lab and remove its files.")
    status = _command(commands, "status", _status, "Show what runs, what died, and the end of its log.")
    status.add_argument("--json", action="store_true", help="print JSON")
    _command(commands, "kubeconfig", _kubeconfig, "Print the path of the administrator's kubeconfig.")
    alerts = "Let a real Prometheus read the lab's exporters, with the rules that monitoring.yml has written."
    rules = _command(commands, "prometheus", _prometheus, alerts)
    rules.add_argument("rules", type=Path, help="gpu_rules.yml in the playbook's monitoring_folder")
    fault_commands.add_commands(
        _command(commands, "fault", _fault, "Inject a fault or clear all faults; print the active ones.")
    )
    recorder.add_options(
        _command(commands, "record", _record, "Record what an operator changes, as one JSON line per change.")
    )
    copied = "End the simulated life, and copy a ready node and its pods until there are N nodes."
    _command(commands, "multiply", _multiply, copied).add_argument("nodes", type=int, metavar="N")
    tools = "Build the lab's tools if they do not exist."
    commands.add_parser("tools", help=tools, description=tools).set_defaults(run=_tools)


def _command(commands: t.Any, name: str, run: Run, summary: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=summary)
    parser.set_defaults(run=run)
    parser.add_argument("--name", default="default", help="name of the lab (default: %(default)s)")
    return parser


def _up_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``up``: without defaults, so that `_up` sees which of them were given."""
    _option(parser, "--nodes", type=int, metavar="N", help="number of nodes (default: 4)")
    _option(parser, "--fleet", help="name of a fleet in lab/cluster/nodes/fleets/, or a file (default: H100 nodes)")
    pods = "whether pods become ready at once or with the delays of a real node (default: live)"
    _option(parser, "--pods", choices=["instant", "live"], help=pods)
    operator = "the operator that acts on the ClusterPolicy (default: standin)"
    _option(parser, "--operator", choices=["standin", "external", "none"], help=operator)
    tick = "interval at which the stand-in checks for driver upgrades (default: 120, like NVIDIA's operator)"
    _option(parser, "--upgrade-tick", type=float, metavar="SECONDS", help=tick)
    validation = "time after which the stand-in gives up on a validator (default: 600, like NVIDIA's operator)"
    _option(parser, "--validation-seconds", type=float, metavar="SECONDS", help=validation)
    manager = "time for which a driver manager waits for the pods of an operand (default: 300, like NVIDIA's)"
    _option(parser, "--manager-patience", type=float, metavar="SECONDS", help=manager)
    change = "time that a MIG manager takes for a change, once the pods are gone (default: 20)"
    _option(parser, "--mig-seconds", type=float, metavar="SECONDS", help=change)
    patience = "time for which a MIG manager waits for the pods of an operand (default: 300, like NVIDIA's)"
    _option(parser, "--mig-patience", type=float, metavar="SECONDS", help=patience)
    reboot = "time that a node takes to reboot (default: 60)"
    _option(parser, "--reboot-seconds", type=float, metavar="SECONDS", help=reboot)
    late = "time until a pod that runs shows an edited ConfigMap (default: 60, like a kubelet)"
    _option(parser, "--map-delay", type=float, metavar="SECONDS", help=late)
    wiped = "time until the ResourceSlices of a DRA driver go that is away (default: 30, like a kubelet)"
    _option(parser, "--wipe-delay", type=float, metavar="SECONDS", help=wiped)
    real = "run a vendor's program on each node in the place of the lab's mig-manager or gpu-feature-discovery"
    _option(parser, "--agent", action="append", dest="agents", type=_agent, metavar="NAME=COMMAND", help=real)
    gates = "Kubernetes' feature gates for every component, as DRAResourcePoolStatus=true,DRADeviceTaintRules=true"
    _option(parser, "--feature-gates", metavar="GATES", help=gates)
    served = "APIs to serve or not to serve, as resource.k8s.io/v1=false,resource.k8s.io/v1beta1=true"
    _option(parser, "--runtime-config", metavar="APIS", help=served)
    _option(parser, "--port", type=int, help="port of the API server (default: a free port)")
    log = "log every request of users and service accounts, with the API server's decision, in logs/audit.jsonl"
    _option(parser, "--audit", action="store_true", help=log)
    external = parser.add_argument_group("external operator")
    command = "command line of the operator, which runs with KUBECONFIG and OPERATOR_NAMESPACE set"
    _option(external, "--operator-command", metavar="COMMAND", help=command)
    _option(external, "--operator-crds", metavar="FOLDER", nargs="+", help="folders of CRDs to apply first")
    _option(external, "--chart", help="chart that playbooks install (default: the stand-in's chart)")


def _option(parser: t.Any, name: str, **settings: t.Any) -> None:
    parser.add_argument(name, default=argparse.SUPPRESS, **settings)


def _agent(text: str) -> tuple[str, str]:
    name, equals, command = text.partition("=")
    if not equals or not command:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=COMMAND")
    return name, command


def _up(arguments: argparse.Namespace) -> int:
    names = {field.name for field in dataclasses.fields(Options)}
    given = {name: value for name, value in vars(arguments).items() if name in names}
    if "operator_crds" in given:
        given["operator_crds"] = tuple(given["operator_crds"])
    if "agents" in given:
        given["agents"] = dict(given["agents"])
    lab = Lab(arguments.name, say=_say)
    if lab.status().phase in ("up", "degraded"):
        _refuse_other_options(lab, given)
        lab.repair()
        _say(f"Lab {lab.name} is up already.")
    else:
        started = time.monotonic()
        lab.up(Options(**given))
        seconds = time.monotonic() - started
        _say(f"Lab {lab.name} is up after {seconds:.1f} s: Kubernetes {toolchain.kubernetes_version()}.")
    _say(_how_to_look_around(lab))
    return 0


def _refuse_other_options(lab: Lab, given: dict[str, t.Any]) -> None:
    running = dataclasses.asdict(lab.state.options)
    other = [f"--{name.replace('_', '-')}" for name, value in given.items() if running[name] != value]
    if other:
        raise LabError(
            f"Lab {lab.name} is up already with another value of {', '.join(other)}: "
            "run `down` first, or start a second lab with --name."
        )


def _how_to_look_around(lab: Lab) -> str:
    tools = lab.helm.parent
    return f"  export KUBECONFIG={lab.kubeconfig} PATH={tools}:$PATH\n  kubectl get nodes"


def _down(arguments: argparse.Namespace) -> int:
    lab = Lab(arguments.name)
    before = lab.status().phase
    lab.down()
    _say(f"There was no lab {lab.name}." if before == "absent" else f"Lab {lab.name} is gone.")
    return 0


def _status(arguments: argparse.Namespace) -> int:
    """Print the status; return 0 if the lab is up, 3 without a lab, and 1 otherwise."""
    report = Lab(arguments.name).report()
    print(json.dumps(report, indent=2) if arguments.json else _readable(report))
    return {"up": 0, "absent": 3}.get(report["phase"], 1)


def _readable(report: dict[str, t.Any]) -> str:
    components = report.get("components", {})
    lines = [f"Lab {report['name']}: {report['summary']}"]
    lines += [f"  {name:24} {entry['state']:8} pid {entry['pid']}" for name, entry in components.items()]
    for name, entry in components.items():
        if entry["state"] == "died":
            lines += [f"\nThe end of {name}'s log ({entry['log']}):", entry["log_end"]]
    return "\n".join(lines)


def _kubeconfig(arguments: argparse.Namespace) -> int:
    print(Lab(arguments.name).kubeconfig)
    return 0


def _fault(arguments: argparse.Namespace) -> int:
    lab = Lab(arguments.name)
    arguments.change(lab, arguments)
    print("\n".join(faults.active(lab)) or "No fault is active.")
    return 0


def _prometheus(arguments: argparse.Namespace) -> int:
    url, nodes = monitoring.serve(Lab(arguments.name), arguments.rules)
    _say(f"Prometheus reads the exporters of {nodes} nodes until the lab goes down. Its alerts: {url}/alerts")
    return 0


def _record(arguments: argparse.Namespace) -> int:
    recorder.record(Lab(arguments.name), arguments.seconds, arguments.output)
    return 0


def _multiply(arguments: argparse.Namespace) -> int:
    written = bulk.multiply(Lab(arguments.name), arguments.nodes)
    _say(f"{written} objects are written. Nothing reacts to changes any more.")
    return 0


def _tools(arguments: argparse.Namespace) -> None:
    toolchain.provide(_say)


def _say(line: str) -> None:
    print(line, flush=True)
