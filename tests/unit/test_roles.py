# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The specs, defaults, tasks, READMEs and presets of roles and playbooks have the same values."""

from __future__ import annotations

import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from tests.support.contents import load, plays_of, tasks_of

Json = dict[str, t.Any]
ROOT = Path(__file__).parents[2]
ROLES = sorted(path for path in (ROOT / "roles").iterdir() if path.is_dir())
SITE = ROOT / "playbooks" / "site.yml"
ANSIBLE = Path(sys.executable).parent / "ansible-playbook"


def options(role: Path) -> dict[str, t.Any]:
    return load(role / "meta" / "argument_specs.yml")["argument_specs"]["main"]["options"]


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
        "mig_partition",
        "monitoring",
        "operator",
        "operator_upgrade",
        "pools",
        "preflight",
        "report",
        "scheduling",
        "sharing",
        "stack_move",
        "uninstall",
        "verify",
        "workloads",
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
def test_modules_take_the_kubeconfig_of_the_user(role: Path) -> None:
    written = {
        "kubeconfig": "{{ gpuops_kubeconfig | default(omit, true) | gpuops.nvidia.from_cwd }}",
        "context": "{{ gpuops_context | default(omit, true) }}",
    }
    entries = load(role / "meta" / "argument_specs.yml")["argument_specs"]
    found = [item for entry in entries for item in connection_of(role, entry).items()]
    for name, defaults in found:
        assert defaults == written, name


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


def test_a_mirror_serves_the_image_of_every_operand() -> None:
    from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import operands

    components = load(ROOT / "roles" / "operator" / "vars" / "main.yml")["__operator_components"]
    wanted = {operand.key for operand in operands.OPERANDS} | {*operands.SIBLINGS, "vgpuManager", "draDriver"}
    assert {component["name"] for component in components} >= wanted


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
        for use in re.findall(
            r"\b((?:gpuops|explain|claims|images)_\w+) \| default\('?(\w+|\[\])'?(?:, true)?\)", path.read_text()
        )
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
        "gpuops.nvidia.scheduling": "check",
        "gpuops.nvidia.mig": "check",
        "gpuops.nvidia.sharing": "check",
        "gpuops.nvidia.pools": "check",
    }
    [driver] = [task for task in includes if task["ansible.builtin.include_role"]["name"].endswith("host_driver")]
    assert driver["vars"].keys() == {"host_driver_leave", "host_driver_facts"} and driver["vars"]["host_driver_leave"]
    changing = {path.name for path in (SITE.parent / "tasks").iterdir() if "include_role" in path.read_text()}
    only_read, on_the_cluster = {"plan_host.yml"}, {"divide.yml", "foresee.yml", "monitor.yml"}
    assert changing == {"batch.yml", *only_read, *on_the_cluster}
