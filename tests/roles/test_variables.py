# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What roles and site.yml compute from their variables, shown by plays on this machine, which change nothing on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from tests.support.ansible import ROOT, SITE, interpreter_of_modules, quicker
from tests.support.contents import load, plays_of, tasks_of

pytestmark = pytest.mark.slow("each case starts a playbook")

Json = dict[str, t.Any]
ANSIBLE = Path(sys.executable).parent / "ansible-playbook"


def play_site(
    tmp_path: Path,
    plays: list[dict[str, t.Any]],
    hosts: t.Mapping[str, dict[str, t.Any]] | None = None,
    **host_vars: t.Any,
) -> subprocess.CompletedProcess[str]:
    """Run plays with GPU hosts, three unless ``hosts`` has their variables. All of them are this machine."""
    tmp_path.mkdir(exist_ok=True)
    hosts = dict(hosts or {"gpu-1": {}, "gpu-2": {}, "gpu-3": {}})
    variables = {"ansible_connection": "local", "ansible_python_interpreter": interpreter_of_modules(), **host_vars}
    (tmp_path / "inventory.yml").write_text(yaml.safe_dump({"gpu_hosts": {"hosts": hosts, "vars": variables}}))
    folder = tmp_path / "playbooks"
    folder.mkdir(exist_ok=True)
    (folder / "meta").symlink_to(SITE.parent / "meta")
    (tmp_path / "roles").symlink_to(SITE.parents[1] / "roles")
    (folder / "plays.yml").write_text(yaml.safe_dump(plays, sort_keys=False))
    command = [ANSIBLE, "--inventory", tmp_path / "inventory.yml", folder / "plays.yml"]
    return subprocess.run(command, env={**os.environ, **quicker()}, capture_output=True, text=True, check=False)


def test_services_need_no_second_look_if_the_check_has_seen_them_serve(tmp_path: Path) -> None:
    task = {
        "ansible.builtin.assert": {"that": ["__host_driver_serves | bool == serves"]},
        "vars": {"__host_driver_settled": True, "__host_driver_services": {"start": ["nvidia-persistenced.service"]}},
    }
    files = [str(ROOT / "roles" / "host_driver" / "vars" / "main.yml")]
    play = {"hosts": "gpu_hosts", "gather_facts": False, "vars_files": files, "tasks": [task]}
    hosts = {
        f"persistence-{mode}": {
            "__host_driver_found": {"gpus": [{"pci_address": "0000:18:00.0", "persistence_mode": mode}]},
            "serves": mode is True,
        }
        for mode in (True, False, None)
    }
    run = play_site(tmp_path, [play], hosts)
    assert run.returncode == 0, run.stdout


def test_what_the_check_has_read_of_a_host_is_used_only_until_something_changes(tmp_path: Path) -> None:
    """Neither a role that has changed something nor one that has something to do leaves the facts as they were."""
    handed = {
        f"{name}_facts": {**play.get("vars", {}), **task["vars"]}
        for play in plays_of(SITE)
        for task in tasks_of(play.get("tasks", []))
        for name in ("host_driver", "host_change")
        if task.get("ansible.builtin.include_role", {}).get("name") == f"gpuops.nvidia.{name}"
    }
    show = {
        name: {
            "ansible.builtin.copy": {
                "content": f"{{{{ {name} | to_json }}}}",
                "dest": f"{tmp_path}/{name}.{{{{ at }}}}",
            },
            "vars": variables,
        }
        for name, variables in handed.items()
    }
    checked: dict[str, t.Any] = {"preflight_gathered": {"ansible_facts": {"gpuops": {"kernel": "read by the check"}}}}
    cases: dict[str, tuple[dict[str, t.Any], bool, bool]] = {
        "nothing": ({}, True, True),
        "settled": ({"host_prep_changed": False, "host_driver_plan": {"settled": True}}, True, True),
        "prepared": ({"host_prep_changed": True, "host_driver_plan": {"settled": True}}, False, False),
        "due": ({"host_prep_changed": False, "host_driver_plan": {"settled": False}}, True, False),
        "unknown": ({"host_driver_plan": {}}, True, False),
    }
    plays = [
        {"hosts": "gpu-1", "gather_facts": False, "vars": {**checked, **known, "at": at}, "tasks": list(show.values())}
        for at, (known, *dummy) in cases.items()
    ]
    run = play_site(tmp_path / "run", plays)
    assert run.returncode == 0, run.stdout
    for at, (dummy, *expected) in cases.items():
        shown = [
            json.loads((tmp_path / f"{name}.{at}").read_text()) for name in ("host_driver_facts", "host_change_facts")
        ]
        assert [bool(facts) for facts in shown] == expected, at


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("-----BEGIN PGP PUBLIC KEY BLOCK-----", "/etc/apt/keyrings/gpuops-nvidia.asc"),
        ("/srv/nvidia.gpg", "/srv/nvidia.gpg"),
    ],
)
def test_a_repository_is_trusted_by_its_key(tmp_path: Path, key: str, path: str) -> None:
    """A check writes nothing, and shows what a run would write. The module for dnf needs a system that has it."""
    known = {
        "__host_driver_found": {"system": {"family": "debian"}},
        "__host_driver_repository": {"name": "nvidia", "url": "file:///srv", "key": key},
    }
    role = ROOT / "roles" / "host_driver"
    included = [
        {"ansible.builtin.include_vars": str(role / "vars" / "main.yml")},
        {"ansible.builtin.include_tasks": str(role / "tasks" / "repository_apt.yml")},
    ]
    play = {"hosts": "gpu-1", "gather_facts": False, "check_mode": True, "diff": True, "vars": known, "tasks": included}
    run = play_site(tmp_path, [play])
    assert run.returncode == 0 and f"+Signed-By: {path}" in run.stdout, run.stdout


@pytest.mark.wide
def test_a_wrong_source_of_the_driver_is_one_error_before_anything_else(tmp_path: Path) -> None:
    plays = load(SITE)
    assert play_site(tmp_path / "right", plays[:1], gpuops_driver="host").returncode == 0
    run = play_site(tmp_path / "wrong", plays[:1], gpuops_driver="Host")
    assert run.returncode == 2
    assert "value of gpuops_driver must be one of: container, host, got: Host" in run.stdout + run.stderr


PROVED = ["deploy", "verify", "workload", "metrics"]


def test_the_preflight_asks_for_what_the_inventory_will_do(tmp_path: Path) -> None:
    cases: list[tuple[Json, list[str]]] = [
        ({}, PROVED),
        ({"verify_workload": "false", "verify_metrics": False}, ["deploy", "verify"]),
        ({"operator_preset": "gke"}, [*PROVED, "quota"]),
        ({"operator_state": "absent", "host_change_allowed": True}, ["remove"]),
        ({"operator_critical_pods": "100", "host_change_allowed": True}, [*PROVED, "quota", "drain"]),
        ({"host_change_allowed": True, "host_change_drain": False}, PROVED),
    ]
    # What is asked for depends on all hosts of an inventory, so each case has its own.
    for number, (given, operations) in enumerate(cases):
        hosts: dict[str, Json] = {"gpu-1": {}}
        found = _shown(tmp_path / str(number), "preflight", "__preflight_operations", hosts, **given)
        assert found == [operations], given


def of_the_role(folder: Path, role: str, name: str, cases: t.Sequence[Json]) -> list[t.Any]:
    """Return a variable of a role on one host for each case, which has the variables of the case."""
    hosts = {f"case-{number}": case for number, case in enumerate(cases)}
    return _shown(folder, role, name, hosts)


def _shown(folder: Path, role: str, name: str, hosts: dict[str, Json], **variables: t.Any) -> list[t.Any]:
    values = f"{{{{ {list(hosts)} | map('extract', hostvars, 'shown') | list | to_json }}}}"
    tasks = [
        {"ansible.builtin.include_vars": str(ROOT / "roles" / role / "vars" / "main.yml")},
        {"ansible.builtin.set_fact": {"shown": f"{{{{ {name} }}}}"}},
        {"ansible.builtin.copy": {"content": values, "dest": str(folder / "shown")}, "run_once": True},
    ]
    run = play_site(folder, [{"hosts": list(hosts), "gather_facts": False, "tasks": tasks}], hosts, **variables)
    assert run.returncode == 0, run.stdout
    return list(json.loads((folder / "shown").read_text()))


OWN = {"loaded": True, "version": "580.95.05", "origin": "nvidia"}


CONTAINER = OWN | {"origin": "container"}


def test_a_host_is_proved_to_have_the_driver_that_it_had_before_the_change(tmp_path: Path) -> None:
    """A driver that was there before a reboot, and is not afterward, would otherwise be missed."""
    cases: list[tuple[Json | None, str, Json, str]] = [
        (OWN, "proof", {}, "host"),
        (OWN, "proof", {"gpuops_driver": "container"}, "host"),
        (OWN, "proof", {"host_driver_remove": True}, "container"),
        (OWN, "back", {"host_driver_remove": True}, "host"),
        (CONTAINER, "proof", {}, "container"),
        (OWN | {"loaded": False}, "proof", {}, "container"),
        (OWN | {"loaded": False}, "proof", {"gpuops_driver": "host"}, "host"),
        (OWN | {"origin": None}, "proof", {}, "host"),
        (None, "proof", {}, "container"),
        (None, "proof", {"gpuops_driver": "host"}, "host"),
        # Virtual machines get the GPUs, and no container brings a driver.
        (None, "proof", {"host_change_workload_kind": "vm-passthrough"}, "none"),
        (OWN, "proof", {"host_change_workload_kind": "vm-passthrough", "host_driver_remove": True}, "none"),
        (OWN, "back", {"host_change_workload_kind": "vm-passthrough", "host_driver_remove": True}, "host"),
    ]
    proofs = [None if before is None else {"driver": before, "gpus": [], "nvswitches": 0} for before, *dummy in cases]
    given = [
        {"host_change_workload_kind": "container", "__host_change_kept": {"stage": stage, "proof": proof}, **variables}
        for proof, (dummy, stage, variables, dummy2) in zip(proofs, cases)
    ]
    found = of_the_role(tmp_path, "host_change", "__host_change_proves", given)
    assert found == [proves for *dummy, proves in cases]


LOADED = {"loaded": True, "module_installed": True, "installed_version": "580.95.05"}


def test_a_driver_of_the_host_that_is_not_loaded_needs_a_reboot(tmp_path: Path) -> None:
    cases: list[tuple[Json, int, str, list[str]]] = [
        (LOADED, 1, "host", []),
        (LOADED | {"loaded": False}, 1, "host", ["The driver 580.95.05 is installed and not loaded"]),
        (LOADED | {"loaded": False}, 1, "container", []),
        (LOADED | {"loaded": False}, 0, "host", []),
        (LOADED | {"loaded": False, "module_installed": False}, 1, "host", []),
        (
            LOADED | {"loaded": False, "installed_version": ""},
            1,
            "host",
            ["The driver of this host is installed and not loaded"],
        ),
    ]
    given = []
    for driver, gpus, source, _reasons in cases:
        facts = {"driver": driver, "gpus": [{}] * gpus}
        given.append({"__host_change_gathered": {"ansible_facts": {"gpuops": facts}}, "gpuops_driver": source})
    found = of_the_role(tmp_path, "host_change", "__host_change_unloaded", given)
    assert found == [reasons for *dummy, reasons in cases]


def test_a_check_predicts_the_reboot_that_settings_and_driver_will_need(tmp_path: Path) -> None:
    given = {
        "host_prep_reboot_reasons": ["The kernel runs without iommu=pt"],
        "host_driver_plan": {"reboot_reasons": ["nouveau is loaded"]},
    }
    cases = [given, given | {"gpuops_driver": "host"}, {}]
    assert of_the_role(tmp_path, "host_change", "__host_change_predicted", cases) == [
        ["The kernel runs without iommu=pt"],
        ["The kernel runs without iommu=pt", "nouveau is loaded"],
        [],
    ]


@pytest.mark.wide
def test_a_password_is_sent_for_a_key_only_to_the_server_of_its_repository(tmp_path: Path) -> None:
    cases: list[tuple[Json, bool]] = [
        ({}, False),
        ({"username": "me", "password": "secret"}, True),
        ({"username": "me", "password": "secret", "key": "https://example.com/key.asc"}, False),
        ({"username": "me", "password": "secret", "url": "https://example.org:8443/debian"}, False),
    ]
    repository = {"name": "nvidia", "url": "https://example.org/debian", "key": "https://example.org/key.asc"}
    given = [{"__host_driver_repository": repository | changes} for changes, dummy in cases]
    found = of_the_role(tmp_path, "host_driver", "__host_driver_key_is_guarded | bool", given)
    assert found == [guarded for dummy, guarded in cases]


@pytest.mark.wide
def test_the_toolkits_of_host_and_operator_are_refused_side_by_side(tmp_path: Path) -> None:
    given = {"preflight_values": {}, "preflight_chart": False, "preflight_skip": [], "gpuops_driver": "host"}

    def found(**changes: t.Any) -> t.Any:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        hosts: dict[str, Json] = {"gpu-1": {}, "gpu-2": {}, "gpu-3": {}}
        return _shown(folder, "preflight", "__preflight_toolkit_findings", hosts, **{**given, **changes})[0]

    assert found() == [
        {
            "check": "container_runtime",
            "level": "failure",
            "message": "The host role and the operator would both set up a container toolkit on gpu-1 and 2 more.",
            "remedy": "Set toolkit.enabled to false in operator_values, or host_driver_toolkit to false.",
        }
    ]
    merged = {"toolkit": {"enabled": False}}
    for change in (
        {"preflight_values": merged},
        {"preflight_chart": True, "operator_merged_values": merged},
        {"host_driver_toolkit": False},
        {"gpuops_driver": "container"},
        {"operator_state": "absent"},
        {"preflight_skip": ["container_runtime"]},
    ):
        assert found(**change) == [], change
