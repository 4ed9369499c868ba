# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's commands."""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
import typing as t

from lab.cluster.controlplane import toolchain
from lab.cluster.lab import Lab
from lab.cluster.state import Options
from lab.errors import LabError


def add_commands(commands: t.Any) -> None:
    """Add the commands of ``python -m lab cluster``."""
    _up_options(_command(commands, "up", _up, "Start a lab and wait until its nodes are Ready."))
    _command(commands, "down", _down, "Stop all processes of a lab and remove its files.")
    status = _command(commands, "status", _status, "Show what runs, and what died and why.")
    status.add_argument("--json", action="store_true", help="as JSON")
    tools = "Build the lab's tools if they do not exist."
    commands.add_parser("tools", help=tools, description=tools).set_defaults(run=_tools)
    _command(commands, "kubeconfig", _kubeconfig, "Print the path of the administrator's kubeconfig.")
    for name, run, summary in (
        ("fault", _fault, "Inject a fault, or take it back."),
        ("record", _record, "Record what happens, one JSON line per change."),
    ):
        rest = _command(commands, name, run, summary)
        rest.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help=f"see `{name} -- --help`")


def _command(
    commands: t.Any, name: str, run: t.Callable[[argparse.Namespace], int | None], summary: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=summary)
    parser.set_defaults(run=run)
    parser.add_argument("--name", default="default", help="the lab's name (default: %(default)s)")
    return parser


def _up_options(parser: argparse.ArgumentParser) -> None:
    """Options without a default here: what is not given is left to Options, and to a lab that runs already."""
    add = parser.add_argument
    given: dict[str, t.Any] = {"default": argparse.SUPPRESS}
    add("--nodes", type=int, help="number of nodes (default: 4)", **given)
    add(
        "--fleet",
        help="a fleet by name (a file under lab/cluster/nodes/fleets/) or path (default: H100 nodes)",
        **given,
    )
    add(
        "--pods",
        choices=["instant", "live"],
        help="ready at once, or with the delays of a real node (default: live)",
        **given,
    )
    add(
        "--operator",
        choices=["standin", "external", "none"],
        help="who acts on the ClusterPolicy (default: standin)",
        **given,
    )
    add(
        "--upgrade-tick",
        type=float,
        help="seconds between the stand-in's looks at a driver upgrade (default: 120, as NVIDIA's)",
        **given,
    )
    add(
        "--operator-command",
        metavar="COMMAND",
        help="external: its command line; gets KUBECONFIG and OPERATOR_NAMESPACE",
        **given,
    )
    add("--operator-crds", metavar="FOLDER", nargs="+", help="external: folders of CRDs to apply first", **given)
    add("--chart", help="the operator chart that playbooks install (default: the stand-in's)", **given)
    add("--port", type=int, help="port of the API server (default: a free one)", **given)


def _up(arguments: argparse.Namespace) -> int:
    given = {
        field.name: getattr(arguments, field.name)
        for field in dataclasses.fields(Options)
        if hasattr(arguments, field.name)
    }
    if "operator_crds" in given:
        given["operator_crds"] = tuple(given["operator_crds"])
    lab = Lab(arguments.name, say=_say)
    status = lab.status()
    if status.phase in ("up", "degraded"):
        _refuse_other_options(lab, given)
        lab.repair()
        _say(f"Lab {lab.name} is up already.")
    else:
        started = time.monotonic()
        lab.up(Options(**given))
        _say(
            f"Lab {lab.name} is up: Kubernetes {toolchain.kubernetes_version()}, after {time.monotonic() - started:.1f} s."
        )
    _say(_how_to_look_around(lab))
    return 0


def _refuse_other_options(lab: Lab, given: dict[str, t.Any]) -> None:
    running = dataclasses.asdict(lab.state.options)
    other = [f"--{name.replace('_', '-')}" for name, value in given.items() if running[name] != value]
    if other:
        raise LabError(
            f"Lab {lab.name} is up already with another {', '.join(other)}: run `down` first, or start a second lab with --name."
        )


def _how_to_look_around(lab: Lab) -> str:
    tools = lab.helm.parent
    return f"  export KUBECONFIG={lab.kubeconfig} PATH={tools}:$PATH\n  kubectl get nodes"


def _down(arguments: argparse.Namespace) -> int:
    lab = Lab(arguments.name)
    was = lab.status().phase
    lab.down()
    _say(f"There was no lab {lab.name}." if was == "absent" else f"Lab {lab.name} is gone.")
    return 0


def _status(arguments: argparse.Namespace) -> int:
    """Exit status 0 when all is well, 3 when there is no lab, 1 otherwise."""
    report = Lab(arguments.name).report()
    print(json.dumps(report, indent=2) if arguments.json else _readable(report))
    return {"up": 0, "absent": 3}.get(report["phase"], 1)


def _readable(report: dict[str, t.Any]) -> str:
    lines = [f"Lab {report['name']}: {report['summary']}"]
    lines += [
        f"  {name:24} {entry['state']:8} pid {entry['pid']}" for name, entry in report.get("components", {}).items()
    ]
    for name, entry in report.get("components", {}).items():
        if entry["state"] == "died":
            lines += [f"\nThe end of {name}'s log ({entry['log']}):", entry["log_end"]]
    return "\n".join(lines)


def _kubeconfig(arguments: argparse.Namespace) -> int:
    print(Lab(arguments.name).kubeconfig)
    return 0


def _tools(arguments: argparse.Namespace) -> None:
    toolchain.provide(_say)


def _fault(arguments: argparse.Namespace) -> int:
    from lab.cluster import faults

    return faults.main(Lab(arguments.name), arguments.rest)


def _record(arguments: argparse.Namespace) -> int:
    from lab.cluster import recorder

    return recorder.main(Lab(arguments.name), arguments.rest)


def _say(line: str) -> None:
    print(line, flush=True)
