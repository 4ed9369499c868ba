# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.


"""The configuration of container runtimes as their files have it: handlers and who defines them, imports, templates."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import runtimes
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.runtime_config import Setting, settings, words
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.runtimes import Runtime
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._types import Json

_HANDLER_NAME = "nvidia"

_DROP_INS = ("/etc/containerd/conf.d/*.toml", "/etc/containerd/config.d/*.toml")
"""Where the container toolkit writes: since 1.18.1 the first one, with 1.18.0 the other one.

containerd reads them only if its configuration imports them. `containerd config default` of 2.2 prints such an import,
and a configuration without one has none: seen with `containerd config dump` of 2.2.7.
"""

_HANDLER = re.compile(r"\.runtimes\.[\"']?(?P<name>[\w.-]+?)[\"']?(?:\.options)?$")
_BINARY = ("BinaryName", "runtime_path")


def observe(host: Host) -> list[Json]:
    """Return the configuration of each runtime that has a configuration file."""
    found = []
    for runtime in runtimes.RUNTIMES:
        paths = [path for pattern in runtime.configs for path in host.glob(pattern)]
        if paths:
            found.append(_docker(host, runtime, paths) if runtime.name == "docker" else _toml(host, runtime, paths))
    return found


def _toml(host: Host, runtime: Runtime, paths: t.Sequence[str]) -> Json:
    files = {path: settings(host.read(path) or "") for path in paths}
    given = [value for rows in files.values() for _table, key, value in rows if key == "imports"]
    imports = [word for value in given for word in words(value)]
    drop_ins = [path for pattern in imports for path in host.glob(pattern) if path not in files]
    files.update({path: settings(host.read(path) or "") for path in drop_ins})
    rows = [row for each in files.values() for row in each]
    default = _last(rows, ("default_runtime_name", "default_runtime"))
    return {
        "name": runtime.name,
        "distribution": runtime.distribution,
        "config": paths[-1] if runtime.distribution == "microk8s" else paths[0],
        "handlers": _handlers(rows),
        "nvidia_from": [path for path, each in files.items() if _HANDLER_NAME in _handlers(each)],
        "not_imported": _not_imported(host, runtime, imports, set(files)),
        "fixed_templates": _fixed_templates(host, runtime, paths[0]),
        "cni_bin_dirs": _bin_dirs(rows),
        "systemd_cgroup": _systemd_cgroup(rows, runtime, default or "runc"),
    }


def _last(rows: t.Sequence[Setting], keys: t.Collection[str]) -> str | None:
    found = [value for _table, key, value in rows if key in keys]
    return found[-1].strip("\"'") if found else None


def _handlers(rows: t.Sequence[Setting]) -> dict[str, str | None]:
    """Return the handlers, each with its program if the files name it."""
    handlers: dict[str, str | None] = {}
    for table, key, value in rows:
        found = _HANDLER.search(table)
        if found:
            handlers.setdefault(found["name"], None)
            if key in _BINARY:
                handlers[found["name"]] = value.strip("\"'") or None
    return handlers


def _bin_dirs(rows: t.Sequence[Setting]) -> list[str]:
    found = [words(value) for table, key, value in rows if "cni" in table and key in ("bin_dir", "bin_dirs")]
    return found[-1] if found else []


def _systemd_cgroup(rows: t.Sequence[Setting], runtime: Runtime, handler: str) -> bool | None:
    if runtime.name == "crio":
        return {"systemd": True, "cgroupfs": False}.get(_last(rows, ("cgroup_manager",)) or "")
    of_handler = [row for row in rows if row[0].replace('"', "").endswith(f".runtimes.{handler}.options")]
    return {"true": True, "false": False}.get(_last(of_handler, ("SystemdCgroup",)) or "")


def _not_imported(host: Host, runtime: Runtime, imports: t.Sequence[str], read: set[str]) -> list[str]:
    """Return the files that the toolkit wrote, that define the handler nvidia, and that containerd does not read."""
    if runtime.name != "containerd" or runtime.distribution:
        return []
    found = [path for pattern in _DROP_INS for path in host.glob(pattern) if path not in read]
    unread = [path for path in found if not any(fnmatch.fnmatch(path, pattern) for pattern in imports)]
    return [path for path in unread if _HANDLER_NAME in _handlers(settings(host.read(path) or ""))]


def _fixed_templates(host: Host, runtime: Runtime, config: str) -> list[str]:
    """Return the templates of k3s or RKE2 that have no expression, so that their own content is lost."""
    if runtime.distribution not in ("k3s", "rke2"):
        return []
    paths = host.glob(f"{os.path.dirname(config)}/config*.toml.tmpl")
    return [path for path in paths if "{{" not in (host.read(path) or "{{")]


def _docker(host: Host, runtime: Runtime, paths: t.Sequence[str]) -> Json:
    try:
        given = json.loads(host.read(paths[0]) or "{}")
    except ValueError:
        given = {}
    given = given if isinstance(given, dict) else {}
    handlers = {str(name): (row or {}).get("path") for name, row in (given.get("runtimes") or {}).items()}
    options = [str(option) for option in given.get("exec-opts") or []]
    drivers = {"native.cgroupdriver=systemd": True, "native.cgroupdriver=cgroupfs": False}
    return {
        "name": runtime.name,
        "distribution": None,
        "config": paths[0],
        "handlers": handlers,
        "nvidia_from": [paths[0]] if _HANDLER_NAME in handlers else [],
        **{name: [] for name in ("not_imported", "fixed_templates", "cni_bin_dirs")},
        "systemd_cgroup": next((drivers[option] for option in options if option in drivers), None),
    }
