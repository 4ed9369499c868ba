# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What holds for every rule of the catalogue. Each has tests of its own beside its file."""

from __future__ import annotations

import functools
import re
import string
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.preflight import checks
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.adopted import POD_REASONS, WAITING
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.model import Rule
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.rules.all_rules import RULES
from ansible_collections.gpuops.nvidia.plugins.module_utils._host import preflight

from tests.unit import diagnosed

ROOT = Path(__file__).parents[6]
VERDICT = ROOT / "docs" / "reference" / "verdict.md"
ALL = (*RULES, WAITING)
CODES = [rule.code for rule in ALL]


def adopted() -> set[str]:
    """Return the codes of what is known without a rule: reasons of the verdict, and checks."""
    reasons = set(re.findall(r"`([A-Z][A-Za-z]+)`", VERDICT.read_text()))
    names = {"Preflight": checks.CHECKS, "HostPreflight": preflight.CHECKS}
    return reasons | {prefix + _camel(name) for prefix, found in names.items() for name in found} | {*POD_REASONS}


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def blanks(rule: Rule) -> set[str]:
    texts = (rule.cause, rule.remedy)
    return {
        name for text in texts for dummy, name, spec, conversion in string.Formatter().parse(text) if name is not None
    }


def test_codes_are_unique_and_none_is_that_of_a_verdict() -> None:
    assert [code for code in CODES if CODES.count(code) > 1] == []
    assert {*CODES} & (adopted() - {WAITING.code}) == set()
    lowered = [code.lower() for code in CODES]
    assert len({*lowered}) == len(lowered), "The page has one anchor for each code in lower case."


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.code)
def test_a_rule_says_all_that_a_reader_needs(rule: Rule) -> None:
    assert re.fullmatch(r"[A-Z][A-Za-z0-9]+", rule.code)
    assert rule.title and not rule.title.endswith(".")
    assert rule.cause.endswith((".", ")")) and rule.remedy.endswith((".", "}"))
    assert rule.sources and all(re.match(r"https://\S+$", address) for address in rule.sources)
    assert rule.check or rule.patterns or rule is WAITING


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.code)
def test_what_a_rule_refers_to_exists(rule: Rule) -> None:
    assert rule.explains - {*CODES} - adopted() == set()
    assert {*rule.unlike} - {*CODES} - adopted() == set()


@functools.cache
def variables() -> frozenset[str]:
    """Return the public variables of all roles and playbooks."""
    files = [*ROOT.glob("roles/*/meta/argument_specs.yml"), ROOT / "playbooks" / "meta" / "argument_specs.yml"]
    specs = [spec for file in files for spec in yaml.safe_load(file.read_text())["argument_specs"].values()]
    return frozenset(name for spec in specs for name in spec.get("options") or {})


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.code)
def test_a_rule_names_playbooks_and_variables_that_exist(rule: Rule) -> None:
    text = f"{rule.cause} {rule.remedy}"
    assert [path for path in re.findall(r"playbooks/\w+\.yml", text) if not (ROOT / path).is_file()] == []
    roles = {folder.name for folder in (ROOT / "roles").iterdir()}
    named = set(re.findall(rf"\b(?:gpuops|{'|'.join(roles)})_[a-z_]+\b", text))
    modules = {path.stem for path in (ROOT / "plugins" / "modules").glob("*.py")}
    assert named - variables() - roles - modules == set()


def test_no_rule_explains_itself_through_others() -> None:
    """A rule may explain its own code on other operands."""
    explains = {rule.code: rule.explains & {*CODES} - {rule.code} for rule in ALL}
    while leaves := {code for code, found in explains.items() if not found}:
        explains = {code: found - leaves for code, found in explains.items() if code not in leaves}
    assert explains == {}


@pytest.mark.parametrize("rule", [rule for rule in RULES if not (rule.check or rule.rest)], ids=lambda rule: rule.code)
def test_patterns_fill_the_blanks_of_a_rule_without_a_check(rule: Rule) -> None:
    for pattern in rule.patterns:
        assert blanks(rule) <= {*pattern.regex.groupindex}, pattern.regex.pattern


def test_literals_are_part_of_what_their_patterns_match() -> None:
    odd = [pattern.literal for rule in RULES for pattern in rule.patterns if pattern.literal != pattern.literal.lower()]
    assert odd == []
    assert [rule.code for rule in RULES for pattern in rule.patterns if len(pattern.literal) < 3] == []


def test_every_rule_has_a_test() -> None:
    folder = Path(__file__).parent
    texts = "".join(path.read_text() for path in [*folder.rglob("test_*.py"), folder.parent / "test_adopted.py"])
    tested = {code for code in CODES if re.search(rf"\b{code}\b", texts)}
    # One function makes these from the names of what is compared.
    drift = {code for code in CODES if code.startswith("FleetDrift")}
    assert {*CODES} - tested - drift == set()


NEAR: dict[str, list[str]] = yaml.safe_load((ROOT / "tests/unit/fixtures/diagnosis/near_misses.yml").read_text())


@pytest.mark.parametrize(("code", "text"), [(code, text) for code, texts in NEAR.items() for text in texts])
def test_what_is_near_to_the_words_of_a_rule_gives_no_finding_of_it(code: str, text: str) -> None:
    assert code in CODES
    assert code not in diagnosed.found(RULES, *text.splitlines())
    assert code not in diagnosed.found(RULES, *map(diagnosed.event, text.splitlines()))
