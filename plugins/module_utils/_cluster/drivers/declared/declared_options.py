# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The options with which a user declares drivers, and what is refused before anything is read. Pure."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.clusterpolicy.spec import UPGRADE_POLICY
from ansible_collections.gpuops.nvidia.plugins.module_utils._cluster.stack import operands
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._numbers import refuse_below
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import first_few
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

Options = t.Mapping[str, t.Any]

POLICY, DRIVER = "ClusterPolicy", "NVIDIADriver"
"""The kinds of object that can have a driver's settings."""

_IMAGE = ArgumentSpec({"repository": {"type": "str"}, "image": {"type": "str"}, "version": {"type": "str"}})
_MODULES = ArgumentSpec({"enabled": {"type": "bool"}}).including(_IMAGE)
_RDMA = ArgumentSpec({"enabled": {"type": "bool"}, "use_host_mofed": {"type": "bool"}})
_LICENSING = ArgumentSpec(
    {
        # The names of objects, not secrets themselves.
        "secret_name": {"type": "str", "no_log": False},
        "config_map": {"type": "str"},
        "nls_enabled": {"type": "bool"},
    }
)
SETTINGS = ArgumentSpec(
    {
        "branch": {"type": "str"},
        "image_pull_policy": {"type": "str", "choices": ["Always", "IfNotPresent", "Never"]},
        "image_pull_secrets": {"type": "list", "elements": "str", "no_log": False},
        # No choices: web pages recommend a type that does not exist (precompiled), and our error names the right field.
        "kernel_module_type": {"type": "str"},
        "use_precompiled": {"type": "bool"},
        "rdma": _RDMA.as_dict(),
        **{name: _MODULES.as_dict() for name in operands.SIBLINGS},
        "licensing": _LICENSING.as_dict(),
        "repo_config": {"type": "str"},
        "cert_config": {"type": "str"},
        "kernel_module_config": {"type": "str"},
        "virtual_topology": {"type": "str"},
        "secret_env": {"type": "str", "no_log": False},
        "env": {"type": "list", "elements": "dict"},
        "args": {"type": "list", "elements": "str"},
        "manager": _IMAGE.as_dict(),
        "upgrade_policy": UPGRADE_POLICY.as_dict(),
        "spec": {"type": "dict"},
    }
).including(_IMAGE)
"""The settings of a driver, for all pools together or for one."""

_POOL = ArgumentSpec(
    {
        "name": {"type": "str", "required": True},
        "default": {"type": "bool"},
        "node_selector": {"type": "dict"},
    }
).including(SETTINGS)
REGISTRY = ArgumentSpec(
    {
        "mode": {"type": "str", "choices": ["strict", "lenient", "offline"], "default": "strict"},
        "mirrors": {"type": "dict", "default": {}},
        "insecure": {"type": "list", "elements": "str", "default": []},
        "username": {"type": "str"},
        "password": {"type": "str", "no_log": True},
        "ca_path": {"type": "path"},
        "timeout": {"type": "int", "default": 10},
    }
)
CHECKS = (
    "image",
    "version",
    "pools",
    "move",
    "gpus",
    "operating_system",
    "kernel",
    "settings",
    "upgrade_policy",
    "gpu_pods",
    "nodes",
    "limits",
    "operands",
    "validators",
)
"""The checks before a change, in the order of the results."""

DECLARATION = ArgumentSpec(
    {
        "resource": {"type": "str", "choices": [POLICY, DRIVER]},
        "pools": _POOL.as_list(),
        "purge": {"type": "bool", "default": False},
        "registry": REGISTRY.as_dict(default={}, apply_defaults=True),
        "skip": {"type": "list", "elements": "str", "choices": list(CHECKS), "default": []},
        "force_conflicts": {"type": "bool", "default": False},
        "allow_disruption": {"type": "bool", "default": False},
        "policy_name": {"type": "str", "default": ""},
        "namespace": {"type": "str", "default": ""},
    }
).including(SETTINGS)
"""All options of the declaration."""


@dataclasses.dataclass(frozen=True)
class DeclaredPool:
    """A pool of nodes that is given, with the settings of its own."""

    name: str
    default: bool | None = None
    node_selector: Json | None = None
    settings: Json = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Declaration:
    """The drivers that the options declare, as every later step takes them."""

    settings: Json
    """The settings that have a value, by the names of their options. Pools share them."""
    resource: str | None
    pools: tuple[DeclaredPool, ...]
    purges: bool
    registry: Json
    skipped: frozenset[str]
    """The checks that are left out."""
    forces_conflicts: bool
    allows_disruption: bool
    policy_name: str
    namespace: str


def declaration_of(options: Options) -> Declaration:
    """Return what the options declare. Raises `GpuOpsError` for options that contradict each other."""
    refuse(options)
    return Declaration(
        settings=_settings_of(options),
        resource=options["resource"],
        pools=tuple(_pool_of(pool) for pool in options["pools"] or []),
        purges=options["purge"],
        registry=options["registry"],
        skipped=frozenset(options["skip"]),
        forces_conflicts=options["force_conflicts"],
        allows_disruption=options["allow_disruption"],
        policy_name=options["policy_name"],
        namespace=options["namespace"],
    )


def _pool_of(pool: Options) -> DeclaredPool:
    return DeclaredPool(pool["name"], pool.get("default"), pool.get("node_selector"), _settings_of(pool))


def _settings_of(options: Options) -> Json:
    return {key: value for key, value in given(options).items() if key in SETTINGS.options}


# ---- refusals -----------------------------------------------------------------------------------------------------

_FULL = re.compile(r"\d+\.\d+(\.\d+)?")
_BRANCH = re.compile(r"\d+")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def refuse(options: Options) -> None:
    """Raise for options that contradict each other, whatever the cluster is like."""
    refuse_below(options["registry"], timeout=1)
    pools = options["pools"] or []
    for problem in (*_of_pools(options, pools), *_of_settings(options), *_of_credentials(options["registry"])):
        raise GpuOpsError(problem, reason="Invalid")


def _of_pools(options: Options, pools: t.Sequence[Json]) -> t.Iterator[str]:
    names = [pool["name"] for pool in pools]
    twice = sorted({name for name in names if names.count(name) > 1})
    defaults = [pool["name"] for pool in pools if pool.get("default")]
    wrong = [name for name in names if not _NAME.fullmatch(name)]
    if pools and options["resource"] == POLICY:
        yield "pools are NVIDIADriver objects: leave resource out, or set it to NVIDIADriver."
    if options["purge"] and not pools:
        yield "purge deletes the NVIDIADrivers that pools does not name: give pools."
    if wrong:
        yield f"pools: {first_few(wrong)} cannot be the name of an object. Use lower-case letters, digits and dashes."
    if twice:
        yield f"pools: {first_few(twice)} is given twice. Give each pool a name of its own."
    if len(defaults) > 1:
        yield (
            f"pools: {first_few(defaults)} all have default: true. The operator then stops all NVIDIADrivers: leave it "
            "with one."
        )
    for pool in pools:
        if pool.get("default") and pool.get("node_selector"):
            yield (
                f"pools: {pool['name']} has default: true and a node_selector. The default takes the nodes that no "
                "other pool selects: remove one of the two."
            )


def _of_settings(options: Options) -> t.Iterator[str]:
    yield from _of_versions(options, "")
    for pool in options["pools"] or []:
        yield from _of_versions({**options, **given(pool)}, f"pools: {pool['name']}: ")


def given(settings: Options) -> Json:
    """Return the options that have a value."""
    return {key: value for key, value in settings.items() if value is not None}


def _of_versions(settings: Options, where: str) -> t.Iterator[str]:
    """Yield versions and branches that are mixed up. What the objects say already is checked later."""
    version, branch, precompiled = (settings.get(key) for key in ("version", "branch", "use_precompiled"))
    if version and branch:
        yield (
            f"{where}version ({version}) and branch ({branch}) are both given. A precompiled driver has a branch, "
            "and any other a version."
        )
    elif precompiled and version and _FULL.fullmatch(version):
        major = version.partition(".")[0]
        yield (
            f"{where}version is {version}, and the images of precompiled drivers are published for branches. "
            f"Set branch: '{major}' instead of version, or use_precompiled: false."
        )
    elif precompiled and version and version.startswith("sha256:"):
        yield f"{where}version is a digest, and a precompiled driver needs one image for each kernel. Set branch."
    elif version and _BRANCH.fullmatch(version) and precompiled is False:
        yield f"{where}version is {version}, which is a branch. Set the whole version, for example 595.91.07."
    elif branch and precompiled is False:
        yield f"{where}branch is for precompiled drivers: set use_precompiled: true, or version instead of branch."
    elif branch and not _BRANCH.fullmatch(branch):
        yield f"{where}branch is {branch}: give the number alone, for example {branch.partition('.')[0]}."


def _of_credentials(registry: Options) -> t.Iterator[str]:
    if bool(registry["username"]) != bool(registry["password"]):
        yield "registry: username and password go together. Without both, the pull secrets of the driver are used."
