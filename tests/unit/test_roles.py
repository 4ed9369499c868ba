# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The specs, defaults, tasks, READMEs and presets of roles and playbooks have the same values."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from tests.support.ansible import quicker

Json = dict[str, t.Any]
ROOT = Path(__file__).parents[2]
ROLES = sorted(path for path in (ROOT / "roles").iterdir() if path.is_dir())
SITE = ROOT / "playbooks" / "site.yml"
ANSIBLE = Path(sys.executable).parent / "ansible-playbook"


def load(path: Path) -> t.Any:
    return yaml.safe_load(path.read_text())


def plays_of(playbook: Path) -> list[dict[str, t.Any]]:
    """Return the plays of a playbook, those of the playbooks that it imports among them."""
    found = []
    for play in load(playbook):
        imported = play.get("ansible.builtin.import_playbook")
        found += plays_of(playbook.parent / imported) if imported else [play]
    return found


def options(role: Path) -> dict[str, t.Any]:
    return load(role / "meta" / "argument_specs.yml")["argument_specs"]["main"]["options"]


def tasks_of(value: t.Any) -> t.Iterator[dict[str, t.Any]]:
    """Yield every task of a task file, including tasks in blocks."""
    for task in value:
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks_of(task.get(part, []))


def included_by(task: dict[str, t.Any]) -> str | None:
    """Return the task file of the same role that a task includes."""
    return task.get("ansible.builtin.include_tasks") or task.get("ansible.builtin.import_tasks")


def entry_point(role: Path, name: str) -> list[dict[str, t.Any]]:
    """Return every task that an entry point of a role may run, without the tasks of other roles."""
    found, files = [], [f"{name}.yml"]
    for file in files:
        tasks = list(tasks_of(load(role / "tasks" / file)))
        found += tasks
        files += [name for name in map(included_by, tasks) if name and name not in files]
    return found


def exports_of(tasks: t.Iterable[dict[str, t.Any]]) -> set[str]:
    """Return the public variables, groups and facts that tasks set."""
    names: set[str] = set()
    for task in tasks:
        names |= {*task.get("ansible.builtin.set_fact", {}), task.get("register", "__"), *group_of(task)}
        if "gpuops.nvidia.gpu_facts" in task:
            names.add("ansible_facts.gpuops")
    return {name for name in names if not name.startswith("__")}


def group_of(task: dict[str, t.Any]) -> list[str]:
    return [task["ansible.builtin.group_by"]["key"]] if "ansible.builtin.group_by" in task else []


def roles_included_by(tasks: t.Iterable[dict[str, t.Any]]) -> list[tuple[Path, str]]:
    """Return the other roles that tasks include, with their entry points."""
    calls = [task["ansible.builtin.include_role"] for task in tasks if "ansible.builtin.include_role" in task]
    return [(ROOT / "roles" / call["name"].rpartition(".")[2], call.get("tasks_from", "main")) for call in calls]


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_defaults_match_the_specs(role: Path) -> None:
    documented = {name: option["default"] for name, option in options(role).items() if "default" in option}
    # A default that refers to another variable cannot be in a spec whose type is not a string.
    defaults = {
        name: value
        for name, value in load(role / "defaults" / "main.yml").items()
        if name in documented or "{{" not in str(value)
    }
    assert defaults == documented


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_public_variables_start_with_the_role_and_internal_ones_with_two_underscores(role: Path) -> None:
    assert all(name.startswith(f"{role.name}_") for name in options(role))
    for path in (role / "vars").glob("**/*.yml"):
        assert all(name.startswith(f"__{role.name}_") for name in load(path)), path


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_option_is_typed_and_described(role: Path) -> None:
    def check(name: str, option: dict[str, t.Any]) -> None:
        assert option["type"] and option["description"], name
        assert "elements" in option or option["type"] != "list", name
        for inner, spec in option.get("options", {}).items():
            check(f"{name}.{inner}", spec)

    for name, option in options(role).items():
        check(name, option)


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_exports_are_what_the_tasks_set(role: Path) -> None:
    tasks = [task for name in load(role / "meta" / "readme.yml")["plays"] for task in entry_point(role, name)]
    for other, name in roles_included_by(tasks):
        tasks += entry_point(other, name)
    assert set(load(role / "meta" / "readme.yml")["exports"]) == exports_of(tasks)


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_task_file_belongs_to_an_entry_point(role: Path) -> None:
    specs = load(role / "meta" / "argument_specs.yml")["argument_specs"]
    assert load(role / "meta" / "readme.yml")["plays"].keys() == specs.keys()
    included = {included_by(task) for name in specs for task in entry_point(role, name)}
    assert {path.name for path in (role / "tasks").iterdir()} == {f"{name}.yml" for name in specs} | included - {None}


def connection_of(role: Path, entry: str = "main") -> dict[str, t.Any]:
    """Return the defaults of modules in the block around the tasks of an entry point."""
    return load(role / "tasks" / f"{entry}.yml")[0].get("module_defaults", {})


CLUSTER_ROLES = [
    role
    for role in ROLES
    if role.name
    in (
        "diagnose",
        "driver_container",
        "host_change",
        "mig",
        "operator",
        "operator_upgrade",
        "preflight",
        "report",
        "scheduling",
        "sharing",
        "uninstall",
        "verify",
    )
]


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_task_on_the_cluster_uses_the_connection_of_gpuops_kubeconfig(role: Path) -> None:
    ours = {f"gpuops.nvidia.{name}" for name in load(ROOT / "meta" / "runtime.yml")["action_groups"]["k8s"]}
    tasks = entry_point(role, "main")
    for other, name in roles_included_by(tasks):
        # Some entry points of another role have a block with a connection of their own, the main one always.
        tasks += entry_point(other, name) if name != "main" and not connection_of(other, name) else []
    used = {key for task in tasks for key in task if key in ours or key.startswith("kubernetes.core.")}
    assert bool(used) is (role in CLUSTER_ROLES)
    assert used <= set(connection_of(role))


@pytest.mark.parametrize("role", CLUSTER_ROLES, ids=lambda role: role.name)
def test_modules_take_the_kubeconfig_and_helm_takes_theirs(role: Path) -> None:
    written = {
        "kubeconfig": "{{ gpuops_kubeconfig | default(omit, true) | gpuops.nvidia.from_cwd }}",
        "context": "{{ gpuops_context | default(omit, true) }}",
    }
    helm = {"kubeconfig": "{{ __operator_connection.kubeconfig }}", "host": "{{ __operator_connection.server }}"}
    entries = load(role / "meta" / "argument_specs.yml")["argument_specs"]
    found = [item for entry in entries for item in connection_of(role, entry).items()]
    for name, defaults in found:
        assert defaults == (helm if name.startswith("kubernetes.core.helm") else written), name


_ON_HOSTS = ("gpu_facts", "package_hold", "mig_partition", "kernel_packages")


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_the_plays_in_the_readme_target_the_hosts_that_their_tasks_need(role: Path) -> None:
    cluster = {f"gpuops.nvidia.{name}" for name in load(ROOT / "meta" / "runtime.yml")["action_groups"]["k8s"]}
    text = (role / "README.md").read_text()
    plays = [play for block in re.findall(r"```yaml\n(.*?)```", text, re.S) for play in yaml.safe_load(block)]
    for name, play in zip(load(role / "meta" / "readme.yml")["plays"], plays, strict=True):
        modules = {key for task in entry_point(role, name) if "delegate_to" not in task for key in task}
        on_host = bool({f"gpuops.nvidia.{name}" for name in _ON_HOSTS} & modules)
        assert on_host != bool(modules & {*cluster, "gpuops.nvidia.operator_chart_info"}), name
        assert (play["hosts"], play.get("become", False)) == (("gpu_hosts", True) if on_host else ("localhost", False))


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_the_cells_of_the_readme_are_short(role: Path) -> None:
    rows = [line for line in (role / "README.md").read_text().splitlines() if line.startswith("|")]
    assert [cell for row in rows for cell in row.split(" | ") if len(cell) > 200] == []


def test_readmes_are_generated_from_the_specs() -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "role_readmes.py", "--check"], check=True)


def test_every_preset_has_its_data() -> None:
    choices = options(ROOT / "roles" / "operator")["operator_preset"]["choices"]
    files = {path.stem: load(path) for path in (ROOT / "roles" / "operator" / "vars" / "presets").iterdir()}
    assert sorted(files) == sorted(choices)
    assert all(
        data.keys() == {"__operator_preset_values", "__operator_preset_critical_pods"} for data in files.values()
    )


def test_preflight_knows_the_checks_of_its_module() -> None:
    from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight import checks
    from ansible_collections.gpuops.nvidia.plugins.module_utils._host import preflight

    spec = options(ROOT / "roles" / "preflight")
    assert sorted(spec["preflight_skip"]["choices"]) == sorted([*checks.CHECKS, *preflight.CHECKS])
    assert spec["preflight_tolerate"]["choices"] == spec["preflight_skip"]["choices"]


def test_nothing_relies_on_the_facts_of_an_earlier_job_or_leaves_facts_to_a_later_one() -> None:
    """A fact cache hands ansible_facts from job to job, weeks later. What a run has registered is of that run."""
    folders = [
        ROOT / "playbooks",
        *(role / part for role in ROLES for part in ("tasks", "vars", "defaults", "templates")),
    ]
    for path in (path for folder in folders for path in folder.rglob("*") if path.is_file()):
        assert re.findall(r"(?<![\w.])ansible_facts\b(?!:)", path.read_text()) == [], path
        assert "cacheable" not in path.read_text(), path


def test_roles_name_the_units_of_nvidias_services_as_the_facts_do() -> None:
    from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.nvidia_packages import SERVICES

    texts = [path.read_text() for role in ROLES for path in [*role.glob("tasks/*.yml"), *role.glob("vars/*.yml")]]
    units = {unit for text in texts for unit in re.findall(r"\bnv[a-z-]+\.service\b", text)}
    assert units and units <= {service.unit for service in SERVICES.values()}


# ---- playbooks ---------------------------------------------------------------------------------------------------


def test_the_facts_read_the_files_that_the_roles_write() -> None:
    from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.services import ROLE_FILES

    driver, change = (load(ROOT / "roles" / name / "vars" / "main.yml") for name in ("host_driver", "host_change"))
    assert ROLE_FILES["change"] == change["__host_change_record"]
    assert ROLE_FILES["masked_units"] == driver["__host_driver_record_path"]
    assert ROLE_FILES["persistenced_dropin"] == driver["__host_driver_dropin_path"]
    assert ROLE_FILES["imex_nodes"] == driver["__host_driver_imex_path"]


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


def test_the_defaults_of_variables_without_a_role_are_those_of_their_specs() -> None:
    specs = load(ROOT / "playbooks" / "meta" / "argument_specs.yml")["argument_specs"]
    documented = {name: option.get("default") for spec in specs.values() for name, option in spec["options"].items()}
    paths = [
        *ROOT.glob("playbooks/**/*.yml"),
        *ROOT.glob("roles/*/defaults/main.yml"),
        *ROOT.glob("roles/*/tasks/main.yml"),
    ]
    found = [
        use
        for path in paths
        for use in re.findall(r"\b((?:gpuops|explain)_\w+) \| default\('?(\w+)'?(?:, true)?\)", path.read_text())
    ]
    # Whoever uses the role host_driver on its own wants a driver on the host.
    found = [use for use in found if use != ("gpuops_driver", "host")]
    for name, default in found:
        # An omitted option has the default of the module.
        assert default.lower() == ("omit" if documented[name] is None else str(documented[name]).lower()), name
    assert {name for name, dummy in found} == documented.keys() - {
        "gpuops_batch_by",
        "gpuops_rollout_file",
        "gpuops_registry",
    }


def play_site(
    tmp_path: Path,
    plays: list[dict[str, t.Any]],
    hosts: t.Mapping[str, dict[str, t.Any]] | None = None,
    **host_vars: t.Any,
) -> subprocess.CompletedProcess[str]:
    """Run plays with GPU hosts, three unless ``hosts`` has their variables. All of them are this machine."""
    tmp_path.mkdir(exist_ok=True)
    hosts = dict(hosts or {"gpu-1": {}, "gpu-2": {}, "gpu-3": {}})
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, **host_vars}
    (tmp_path / "inventory.yml").write_text(yaml.safe_dump({"gpu_hosts": {"hosts": hosts, "vars": variables}}))
    folder = tmp_path / "playbooks"
    folder.mkdir(exist_ok=True)
    (folder / "meta").symlink_to(SITE.parent / "meta")
    (tmp_path / "roles").symlink_to(SITE.parents[1] / "roles")
    (folder / "plays.yml").write_text(yaml.safe_dump(plays, sort_keys=False))
    command = [ANSIBLE, "--inventory", tmp_path / "inventory.yml", folder / "plays.yml"]
    return subprocess.run(command, env={**os.environ, **quicker()}, capture_output=True, text=True, check=False)


def test_hosts_are_interrupted_only_batch_by_batch() -> None:
    """The role host_change interrupts. host_driver does so only if nobody tells it to leave that to host_change."""
    tasks = [task for play in plays_of(SITE) for task in tasks_of(play.get("tasks", []))]
    includes = [task for task in tasks if "ansible.builtin.include_role" in task]
    entry = {
        task["ansible.builtin.include_role"]["name"]: task["ansible.builtin.include_role"].get("tasks_from", "main")
        for task in includes
    }
    assert entry == {
        "gpuops.nvidia.preflight": "hosts",
        "gpuops.nvidia.host_prep": "main",
        "gpuops.nvidia.host_driver": "main",
        "gpuops.nvidia.host_change": "plan",
    }
    [driver] = [task for task in includes if task["ansible.builtin.include_role"]["name"].endswith("host_driver")]
    assert driver["vars"].keys() == {"host_driver_leave", "host_driver_facts"} and driver["vars"]["host_driver_leave"]
    changing = [path.name for path in (SITE.parent / "tasks").iterdir() if "include_role" in path.read_text()]
    assert changing == ["batch.yml"]


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
    ]
    proofs = [None if before is None else {"driver": before, "gpus": [], "nvswitches": 0} for before, *dummy in cases]
    given = [
        {"__host_change_kept": {"stage": stage, "proof": proof}, **variables}
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
