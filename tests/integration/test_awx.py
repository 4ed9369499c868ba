# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""examples/awx sets up AWX as its README says, and every job template, survey and schedule is one that AWX takes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from tests.support.ansible import quicker
from tests.support.awx import Awx, RefusedError, check_answers, check_rule, check_survey, check_type, running_awx

pytestmark = pytest.mark.slow("the README's steps run against a simulated AWX")

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "awx"
DEFINITION = EXAMPLE / "execution_environment" / "execution-environment.yml"
HELM = DEFINITION.parent / "install_helm.sh"
SHARE = Path(sys.prefix) / "share"


class Loader(yaml.SafeLoader):
    """YAML with Ansible's tag for text that is no template."""


Loader.add_constructor("!unsafe", lambda loader, node: loader.construct_scalar(node))
DATA: dict[str, t.Any] = yaml.load((EXAMPLE / "awx.yml").read_text(), Loader)
TEMPLATES: list[dict[str, t.Any]] = DATA["awx_job_templates"]


@pytest.fixture(scope="module")
def awx() -> t.Iterator[Awx]:
    with running_awx() as running:
        yield running


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example in a folder of its own, with one kubeconfig per credential."""
    folder = tmp_path_factory.mktemp("awx") / "gpus-in-awx"
    shutil.copytree(EXAMPLE, folder)
    for name in ("change", "verify"):
        (folder.parent / f"{name}.kubeconfig").write_text(f"token-of-{name}")
    return folder


def commands(heading: str) -> list[str]:
    """Return the commands of the first block of code after a heading of the example's README."""
    block = (EXAMPLE / "README.md").read_text().split(f"## {heading}\n", 1)[1].split("```console\n", 1)[1]
    text = block.split("```", 1)[0].replace("\\\n", "")
    return [line.removeprefix("$ ").split("   #")[0] for line in text.splitlines()]


def install(awx: Awx, folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Follow the README's last step in a fresh folder."""
    exported = dict(
        line.removeprefix("export ").split("=", 1) for line in commands("3. Set up AWX") if line.startswith("export ")
    )
    kubeconfigs = {name: str(folder.parent / Path(value).name) for name, value in exported.items() if "KUBEC" in name}
    chosen = exported | kubeconfigs | {"CONTROLLER_HOST": awx.url, "CONTROLLER_OAUTH_TOKEN": "t0ken"} | environment
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "K8S_AUTH_"))}
    own = {"ANSIBLE_COLLECTIONS_PATH": str(SHARE), "HOME": str(folder.parent), "NO_COLOR": "1"}
    (command,) = (line for line in commands("3. Set up AWX") if line.startswith("ansible-playbook"))
    return subprocess.run(
        [*command.split(), *arguments],
        cwd=folder,
        env={**inherited, **quicker(), **own, **chosen},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.wide
def test_the_readme_sets_up_awx_and_a_second_run_changes_nothing(awx: Awx, fresh: Path) -> None:
    first = install(awx, fresh)
    assert first.returncode == 0, first.stdout + first.stderr
    assert sorted(awx.named("job_templates")) == sorted(item["name"] for item in TEMPLATES)
    assert awx.secrets == {f"GPU cluster, {name}": {"kubeconfig": f"token-of-{name}"} for name in ("change", "verify")}
    assert "token-of" not in first.stdout + first.stderr
    done = list(awx.changes)
    second = install(awx, fresh)
    assert second.returncode == 0 and " changed=0 " in second.stdout, second.stdout + second.stderr
    assert awx.changes == done


def question(**changed: t.Any) -> dict[str, t.Any]:
    """Return a question that AWX takes, with changes. What is changed to None is left out."""
    whole = {"question_name": "q", "variable": "v", "type": "text", "required": False, **changed}
    return {name: value for name, value in whole.items() if value is not None}


def survey(*questions: dict[str, t.Any]) -> dict[str, t.Any]:
    return {"name": "", "description": "", "spec": list(questions)}


def kind(env: dict[str, str] | None = None, field: dict[str, t.Any] | None = None, **more: t.Any) -> dict[str, t.Any]:
    """Return a type of credentials that AWX takes, with changes."""
    fields = [{"id": "kubeconfig", "label": "Kubeconfig", "type": "string"}, *([field] if field else [])]
    variables = env or {"K8S_AUTH_KUBECONFIG": "{{ tower.filename }}"}
    injectors = {"file": {"template": "{{ kubeconfig }}"}, "env": variables}
    return {"inputs": {"fields": fields}, "injectors": injectors | more}


TICK = {"id": "b", "label": "b", "type": "boolean"}
CHOICES = {"type": "multiplechoice", "choices": ["false", "true"]}
MUST = question(required=True, **CHOICES)
DAILY = "DTSTART:20260101T030000Z RRULE:FREQ=DAILY;INTERVAL=1"
# What AWX 24.6.1 answered to each with the status 400 or 404, when its own server was asked.
REFUSED: list[tuple[str, str, t.Any]] = [
    ("survey", "'spec' doesn't contain any items.", survey()),
    ("survey", "Field 'name' is missing from survey spec.", {"description": "", "spec": [question()]}),
    ("survey", "'required' missing from survey question 0", survey(question(required=None))),
    ("survey", "'required' in survey question 0 expected to be boolean.", survey(question(required="true"))),
    ("survey", "'variable' 'v' duplicated in survey question 1.", survey(question(), question())),
    ("survey", "'bool' in survey question 0 is not one of", survey(question(type="bool"))),
    ("survey", "Default value 1 in survey question 0 expected to be string.", survey(question(default=1))),
    ("survey", "The min limit in survey question 0 expected to be integer.", survey(question(min="1"))),
    ("survey", "of type multiplechoice must specify choices.", survey(question(type="multiplechoice"))),
    ("survey", "can only have one default value.", survey(question(default="false\ntrue", **CHOICES))),
    ("survey", "Default choice must be answered from the choices listed.", survey(question(default="no", **CHOICES))),
    ("answers", "'v' value missing", {}),
    ("answers", "Value no for 'v' expected to be one of ['false', 'true'].", {"v": "no"}),
    ("answers", "Value False for 'v' expected to be one of ['false', 'true'].", {"v": False}),
    ("answers", "Variables w are not allowed on launch.", {"v": "true", "w": "x"}),
    ("rule", "Valid DTSTART required in rrule.", "RRULE:FREQ=DAILY;INTERVAL=1"),
    ("rule", "DTSTART cannot be a naive datetime.", DAILY.replace("Z ", " ")),
    ("rule", "Multiple DTSTART is not supported.", f"DTSTART:20260101T030000Z {DAILY}"),
    ("rule", "One or more rule required in rrule.", "DTSTART:20260101T030000Z"),
    ("rule", "EXDATE not allowed in rrule.", f"{DAILY} EXDATE:20260102T030000Z"),
    ("rule", "INTERVAL required in rrule", DAILY.replace(";INTERVAL=1", "")),
    ("rule", "SECONDLY is not supported", DAILY.replace("DAILY", "SECONDLY")),
    ("rule", "BYDAY with numeric prefix not supported", f"{DAILY.replace('DAILY', 'MONTHLY')};BYDAY=1MO"),
    ("rule", "may not contain both COUNT and UNTIL", f"{DAILY};COUNT=2;UNTIL=20270101T000000Z"),
    ("rule", "COUNT > 999 is unsupported", f"{DAILY};COUNT=1000"),
    ("type", "Environment variable ANSIBLE_CONFIG may affect", kind({"ANSIBLE_CONFIG": "x"})),
    ("type", "Environment variable PATH is not allowed", kind({"PATH": "x"})),
    ("type", "TOKEN uses an undefined field ('token' is undefined)", kind({"TOKEN": "{{ token }}"})),
    ("type", "Additional properties are not allowed ('files' was unexpected)", kind(files={})),
    ("type", "field IDs must be unique (kubeconfig)", kind(field={"id": "kubeconfig", "label": "k"})),
    ("type", "'label' is a required property", kind(field={"id": "other"})),
    ("type", '"tower" is a reserved field name', kind(field={"id": "tower", "label": "t"})),
    ("type", "secret not allowed for boolean", kind(field={**TICK, "secret": True})),
    ("type", "a-b is an invalid variable name", kind(field={"id": "a-b", "label": "b"})),
]
CHECKS: dict[str, t.Callable[[t.Any], None]] = {
    "survey": check_survey,
    "rule": check_rule,
    "answers": lambda answers: check_answers([MUST], answers),
    "type": lambda both: check_type(both["inputs"], both["injectors"]),
}


@pytest.mark.parametrize(("what", "said", "data"), REFUSED, ids=[said for dummy, said, dummy in REFUSED])
def test_what_awx_refuses_is_refused(what: str, said: str, data: t.Any) -> None:
    with pytest.raises(RefusedError):
        CHECKS[what](data)


def test_what_these_refusals_change_is_taken_without_the_change() -> None:
    check_survey(survey(question(default=""), question(variable="w", default="true", min=1, **CHOICES)))
    check_rule(DAILY)
    check_answers([MUST], {"v": "true"})
    check_type(**kind())


def test_awx_hides_nothing_of_the_inventory_behind_answers_that_nobody_gave() -> None:
    """AWX gives a job the default of each question that nobody answered, even an empty one, as a variable of its own.

    SurveyJobTemplateMixin._update_unified_job_kwargs in awx/main/models/mixins.py.
    """
    inventory = yaml.safe_load((EXAMPLE / "project" / "group_vars" / "all.yml").read_text())
    questions = [each for item in (*TEMPLATES, DATA["awx_workflow"]) for each in item.get("survey", [])]
    assert "operator_chart_version" in inventory.keys() & {each["variable"] for each in questions}
    assert [each for each in questions if "default" in each and each["variable"] in inventory] == []
    assert [each for each in questions if each.get("default") == ""] == []


def test_an_answer_that_must_be_given_has_at_least_one_character() -> None:
    """AWX takes an empty text as an answer, unless the question has a minimum."""
    asked = [each for item in TEMPLATES for each in item.get("survey", []) if each["required"]]
    assert {each["variable"]: each.get("min") for each in asked if each["type"] != "multiplechoice"} == dict.fromkeys(
        ("explain_text", "report_path", "driver_container_version", "operator_chart_version", "host_kernel_release"), 1
    )


@pytest.mark.wide
def test_awx_installs_the_collections_of_the_project(awx: Awx) -> None:
    """It does so only for an organization with a credential for Galaxy: RunProjectUpdate in awx/main/tasks/jobs.py."""
    (organization,) = awx.objects["organizations"].values()
    held = awx.links[organization["id"], "galaxy_credentials"]
    assert [awx.objects["credentials"][number]["name"] for number in held] == ["Ansible Galaxy"]


@pytest.mark.wide
def test_the_workflow_waits_for_an_approval_between_the_check_and_the_deployment(awx: Awx) -> None:
    nodes = awx.named("workflow_job_template_nodes")
    order, step = [], "check"
    while step:
        target = awx.of("unified_job_templates")[nodes[step]["unified_job_template"]]
        order.append((target["name"], target.get("job_type")))
        (after,) = awx.links.get((nodes[step]["id"], "success_nodes"), [0])
        step = next((name for name, node in nodes.items() if node["id"] == after), "")
    assert order == [
        ("GPU check", "check"),
        ("Deploy what the check has shown", None),
        ("GPU deploy", "run"),
        ("GPU verify", "run"),
    ]


@pytest.mark.wide
def test_no_two_jobs_act_on_a_cluster_at_once(awx: Awx) -> None:
    for item in awx.objects["job_templates"].values():
        assert (item["allow_simultaneous"], item["job_slice_count"]) == (False, 1)


@pytest.mark.wide
def test_only_the_jobs_that_change_something_get_the_credential_for_changes(awx: Awx) -> None:
    names = {item["id"]: item["name"] for item in awx.objects["credentials"].values()}
    held = {
        item["name"]: [names[number] for number in awx.links.get((item["id"], "credentials"), [])]
        for item in awx.objects["job_templates"].values()
    }
    assert [held.pop(name) for name in ("GPU verify", "GPU diagnosis", "GPU report")] == [["GPU cluster, verify"]] * 3
    assert held.pop("GPU explanation") == []
    assert {tuple(each) for each in held.values()} == {("GPU cluster, change",)}


@pytest.mark.wide
def test_a_run_without_the_addresses_stops_before_it_asks_awx(awx: Awx, fresh: Path) -> None:
    done = list(awx.changes)
    run = install(awx, fresh, GPUOPS_IMAGE="")
    assert run.returncode == 2 and "Set GPUOPS_PROJECT_URL, GPUOPS_IMAGE" in " ".join(run.stdout.split())
    assert awx.changes == done


def test_every_playbook_has_a_job_template_and_a_file_in_the_project() -> None:
    """AWX offers only playbooks that lie in the project."""
    playbooks = {path.name for path in (ROOT / "playbooks").glob("*.yml")}
    project = EXAMPLE / "project"
    assert {item["playbook"] for item in TEMPLATES} == playbooks
    assert {path.name for path in project.glob("*.yml")} - {"inventory.yml"} == playbooks
    for name in playbooks:
        (play,) = yaml.safe_load((project / name).read_text())
        assert play["ansible.builtin.import_playbook"] == f"gpuops.nvidia.{name.removesuffix('.yml')}"


def variables() -> set[str]:
    """Return the public variables of all roles and playbooks."""
    files = [*ROOT.glob("roles/*/meta/argument_specs.yml"), ROOT / "playbooks" / "meta" / "argument_specs.yml"]
    entries = [entry for file in files for entry in yaml.safe_load(file.read_text())["argument_specs"].values()]
    return {name for entry in entries for name in entry["options"]}


def test_surveys_and_inventory_set_variables_that_exist() -> None:
    asked = {question["variable"] for item in TEMPLATES for question in item.get("survey", [])}
    given = set(yaml.safe_load((EXAMPLE / "project" / "group_vars" / "all.yml").read_text()))
    assert (asked | given) - variables() == set()
    answers = {question["variable"] for question in DATA["awx_workflow"]["survey"]}
    assert answers <= asked, "AWX drops answers for which a job template of the workflow has no question"


ROLES = {path.name: path for path in (ROOT / "roles").iterdir()}


def plays_of(path: Path) -> t.Iterator[dict[str, t.Any]]:
    """Yield the plays of a playbook, and what it imports and includes."""
    for play in yaml.safe_load(path.read_text()):
        yield play
        for item in mappings(play):
            for key in ("import_playbook", "include_tasks", "import_tasks"):
                other = path.parent / str(item.get(f"ansible.builtin.{key}", "none"))
                yield from plays_of(other) if other.is_file() else ()


def mappings(data: t.Any) -> t.Iterator[dict[str, t.Any]]:
    """Yield every mapping in plays or tasks."""
    if isinstance(data, dict):
        yield data
    for each in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from mappings(each)


def roles_in(data: t.Any) -> t.Iterator[tuple[str, str, dict[str, t.Any]]]:
    """Yield the roles that plays or tasks run, each with its entry point and the variables that it gets there."""
    for item in mappings(data):
        called = item.get("ansible.builtin.include_role") or item.get("ansible.builtin.import_role") or item
        name = str(called.get("name" if called is not item else "role", "")).removeprefix("gpuops.nvidia.")
        if name in ROLES:
            yield name, called.get("tasks_from", "main"), item.get("vars") or {}


def tasks_of(role: str, entry: str) -> t.Iterator[dict[str, t.Any]]:
    """Yield the tasks of an entry point of a role, and those of the files that it includes."""
    for item in mappings(yaml.safe_load((ROLES[role] / "tasks" / f"{entry}.yml").read_text()) or []):
        yield item
        included = item.get("ansible.builtin.include_tasks") or item.get("ansible.builtin.import_tasks")
        if included and (ROLES[role] / "tasks" / included).is_file():
            yield from tasks_of(role, included.removesuffix(".yml"))


def permissions(role: str, entry: str, given: dict[str, t.Any]) -> set[str]:
    """Return the words without which a role and those that it runs refuse: those that modules take as allow_disruption,
    and those that the inventory alone decides about. A word whose default is another word is that one.
    """
    defaults = {**(yaml.safe_load((ROLES[role] / "defaults" / "main.yml").read_text()) or {}), **given}
    found = set()
    for item in tasks_of(role, entry):
        found |= set(re.findall(r"\b(\w+_allow_disruption)\b", str(item.get("allow_disruption", ""))))
        conditions = item.get("when") if "ansible.builtin.fail" in item else []
        found |= asked_for([conditions] if isinstance(conditions, str) else conditions or [], defaults)
        called = item.get("ansible.builtin.include_role") or item.get("ansible.builtin.import_role")
        for name, start, more in roles_in([item] if called else []):
            found |= permissions(name, start, more)
    chained = {each: re.match(r"{{ (\w+_allow_disruption) \| default", str(defaults.get(each, ""))) for each in found}
    return {match[1] if match else each for each, match in chained.items()} - given.keys()


def asked_for(conditions: list[str], known: dict[str, t.Any]) -> set[str]:
    """Return the words whose absence alone makes a task fail. What depends on the cluster is an exception to it."""
    words = {match[1] for each in conditions if (match := re.fullmatch(r"not (\w+) \| bool", str(each)))}
    compared = [re.fullmatch(r"(\w+) == '(\w+)'", str(each)) for each in conditions]
    is_static = len(words) + sum(map(bool, compared)) == len(conditions)
    holds = all(known.get(match[1]) == match[2] for match in compared if match)
    return words & known.keys() if is_static and holds else set()


def test_a_template_asks_for_every_word_that_its_roles_need() -> None:
    """Also with the answers of nobody, a job must be able to do what its template is for."""
    needed = {}
    for item in TEMPLATES:
        found = roles_in(list(plays_of(ROOT / "playbooks" / item["playbook"])))
        needed[item["playbook"]] = set().union(*(permissions(*each) for each in found))
        asked = {question["variable"] for question in item.get("survey", [])}
        same = {"operator_allow_disruption"} if any(each.endswith("_allow_disruption") for each in asked) else set()
        assert needed[item["playbook"]] - asked - same == set(), item["name"]
    assert needed["to_dra.yml"] == {"operator_allow_disruption", "stack_move_accept_preview"}
    assert needed["to_device_plugin.yml"] == {"operator_allow_disruption"}
    assert needed["site.yml"] == {"operator_allow_disruption", "scheduling_allow_disruption"}
    assert needed["upgrade_operator.yml"] == {"operator_allow_disruption"} and needed["verify.yml"] == set()


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ansible-builder gives to podman or docker."""
    folder = tmp_path_factory.mktemp("context")
    command = ["ansible-builder", "create", f"--file={DEFINITION}", f"--context={folder}"]
    subprocess.run([*command, "--output-filename=Containerfile"], check=True, capture_output=True)
    return folder


def test_the_image_gets_the_collection_of_the_project_and_helm(context: Path) -> None:
    steps = (context / "Containerfile").read_text()
    wanted = (EXAMPLE / "project" / "collections" / "requirements.yml").read_text()
    assert yaml.safe_load((context / "_build" / "requirements.yml").read_text()) == yaml.safe_load(wanted)
    assert "type: git" in wanted
    assert steps.index("RUN $PKGMGR install git-core") < steps.index("RUN ansible-galaxy"), "Galaxy's step needs git"
    final = steps.split("AS final\n", 1)[1]
    assert "COPY _build/helm/install_helm.sh /tmp/install_helm.sh\nRUN bash /tmp/install_helm.sh" in final
    assert (context / "_build" / "helm" / "install_helm.sh").read_text() == HELM.read_text()


@pytest.mark.wide
def test_the_image_gets_the_packages_that_the_collection_names(context: Path, installed: Path, tmp_path: Path) -> None:
    """Run the step of the image that asks the collections what they need."""
    script = context / "_build" / "scripts" / "introspect.py"
    options = [f"--write-pip={tmp_path / 'pip'}", f"--write-bindep={tmp_path / 'bindep'}"]
    subprocess.run([sys.executable, script, "introspect", installed, *options], check=True, capture_output=True)
    assert "kubernetes>=29.0.0" in (ROOT / "meta" / "ee-requirements.txt").read_text().splitlines()
    assert "kubernetes>=29.0.0  # from collection gpuops.nvidia" in (tmp_path / "pip").read_text().splitlines()
    assert "git [platform:rpm platform:dpkg]" in (tmp_path / "bindep").read_text()


def test_the_image_has_a_supported_ansible() -> None:
    core = re.search(r"ansible-core==(\d+\.\d+)", DEFINITION.read_text())
    promised = re.search(r"ansible-core ([\d., or]+)", (ROOT / "README.md").read_text())
    assert core and promised and core[1] in promised[1]


@pytest.fixture
def download(tmp_path: Path) -> dict[str, str]:
    """A curl that hands out an archive whose checksum is not helm's."""
    folder = tmp_path / "bin"
    folder.mkdir()
    curl = folder / "curl"
    curl.write_text('#!/bin/sh\nwhile [ "$1" != --output ]; do shift; done\necho other > "$2"\n')
    curl.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def test_another_helm_than_the_one_of_the_checksum_is_not_installed(tmp_path: Path, download: dict[str, str]) -> None:
    done = subprocess.run([HELM, tmp_path], env=download, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "WARNING: 1 computed checksum did NOT match" in done.stderr
    assert not (tmp_path / "helm").exists()
    tools = (ROOT / "lab" / "cluster" / "controlplane" / "tools" / "go.mod").read_text()
    version = re.search(r"helm\.sh/helm/v\d+ (v\S+)", tools)
    assert version and f"version={version[1]}\n" in HELM.read_text(), "the image has the helm that the tests run"


@pytest.fixture(scope="module")
def installed(fresh: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install what the project requires, as AWX does when it updates a project. This checkout stands for GitHub."""
    folder = tmp_path_factory.mktemp("installed")
    wanted = yaml.safe_load((fresh / "project" / "collections" / "requirements.yml").read_text())["collections"][0]
    source = copy_of_checkout(folder / "source", wanted["version"])
    name, value = f"url.{source}.insteadOf", wanted["name"]
    settings = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": name, "GIT_CONFIG_VALUE_0": value}
    command = ["ansible-galaxy", "collection", "install", "--no-deps", "-r", "collections/requirements.yml"]
    environment = plain(folder) | settings
    subprocess.run(command, cwd=fresh / "project", env=environment, check=True, capture_output=True)
    for name in ("kubernetes", "ansible", "community"):  # What ansible-galaxy would fetch from Galaxy.
        (folder / "ansible_collections" / name).symlink_to(SHARE / "ansible_collections" / name)
    return folder


def plain(folder: Path) -> dict[str, str]:
    """Return an environment with these collections and no cluster."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "K8S_AUTH_"))}
    return kept | {"ANSIBLE_COLLECTIONS_PATH": str(folder), "HOME": str(folder), "KUBECONFIG": str(folder / "none")}


@pytest.mark.parametrize("playbook", ["site.yml", "uninstall.yml"])
@pytest.mark.wide
def test_the_project_runs_the_collection_of_its_requirements(fresh: Path, installed: Path, playbook: str) -> None:
    command = ["ansible-playbook", "--inventory", "inventory.yml", playbook]
    run = subprocess.run(
        command, cwd=fresh / "project", env=plain(installed), capture_output=True, text=True, check=False
    )
    assert run.returncode == 2, run.stdout + run.stderr
    assert "connection settings" in " ".join(run.stdout.split()), run.stdout


def copy_of_checkout(folder: Path, branch: str) -> Path:
    """Return a git repository with one commit of the checkout as it is."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(None, listed):
        if name.startswith(("lab/", "tests/", "docs/", "benchmarks/")) or not (ROOT / name).is_file():
            continue  # galaxy.yml leaves these out, but for the pages.
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
    for command in (["init", f"--initial-branch={branch}"], ["add", "."], [*identity, "commit", "-m", "x"]):
        subprocess.run(["git", *command], cwd=folder, check=True, capture_output=True)
    return folder


def test_the_answers_that_awx_sends_fit_the_variables() -> None:
    """AWX sends the answers as text, and an answer that is not required as an empty one."""
    known: dict[str, dict[str, t.Any]] = {}
    for file in (*ROOT.glob("roles/*/meta/argument_specs.yml"), ROOT / "playbooks" / "meta" / "argument_specs.yml"):
        for entry in yaml.safe_load(file.read_text())["argument_specs"].values():
            known |= entry["options"]
    for item in TEMPLATES:
        for question in item.get("survey", []):
            if not question["required"]:
                assert known[question["variable"]]["type"] == "str", "an empty answer is no other type"
            if question["type"] == "multiplechoice":
                option = known[question["variable"]]
                choices = {"false", "true"} if option["type"] == "bool" else set(option["choices"])
                assert set(question["choices"]) <= choices
