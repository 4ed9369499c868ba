# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import runtime_config
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.runtime_config import Configuration

from tests.unit.fakes.host import recorded

CONTAINER = "/usr/local/nvidia/toolkit/nvidia-container-runtime"


@pytest.mark.parametrize(
    ("name", "handlers", "default"),
    [
        ("containerd-1.7-nvidia-ctk.toml", {"nvidia": "/usr/bin/nvidia-container-runtime", "runc": None}, "nvidia"),
        ("containerd-1.7-default.toml", {"runc": None}, "runc"),
        ("k3s.toml", {"nvidia": CONTAINER, "runc": None}, None),
        ("microk8s-template.toml", {"nvidia-container-runtime": None}, "${RUNTIME}"),
    ],
)
def test_containerd(name: str, handlers: dict[str, str | None], default: str | None) -> None:
    found = runtime_config.parse_containerd(recorded(f"runtimes/{name}"))
    assert {name: found.handlers[name] for name in handlers} == handlers
    assert (set(found.handlers), found.default) == (set(handlers), default)


@pytest.mark.parametrize(
    ("version", "section", "read"),
    [
        ("", "plugins.cri", True),
        ("version = 1", "plugins.cri", True),
        ("version = 1", 'plugins."io.containerd.grpc.v1.cri"', False),
        ("version = 2", 'plugins."io.containerd.grpc.v1.cri"', True),
        ("version = 2", "plugins.cri", False),
        ("version = 3", 'plugins."io.containerd.grpc.v1.cri"', False),
        ("version = 3", "plugins.'io.containerd.cri.v1.runtime'", True),
        ("version = 4", "plugins.'io.containerd.cri.v1.runtime'", True),
    ],
)
def test_a_section_counts_only_in_a_file_of_its_version(version: str, section: str, read: bool) -> None:
    text = (
        f'{version}\n[{section}.containerd]\ndefault_runtime_name = "nvidia"\n[{section}.containerd.runtimes.nvidia]\n'
    )
    found = runtime_config.parse_containerd(text)
    assert (set(found.handlers), found.default) == (({"nvidia"}, "nvidia") if read else (set(), None))


def test_an_imported_file_without_a_version_has_that_of_the_main_file() -> None:
    text = "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]\n"
    assert runtime_config.parse_containerd(text, 3).handlers == {"nvidia": None}
    assert runtime_config.parse_containerd(text).handlers == {}


def test_crio() -> None:
    found = runtime_config.parse_crio(recorded("runtimes/crio-99-nvidia.conf"))
    assert (found.handlers, found.default) == ({"nvidia": CONTAINER}, "nvidia")
    assert set(runtime_config.parse_crio(recorded("runtimes/crio-10-runc.conf")).handlers) == {"crun"}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"runtimes": null}', '{"runtimes": []}', '{"runtimes": 3}'])
def test_docker_settings_without_runtimes(text: str) -> None:
    assert runtime_config.parse_docker(text).handlers == {}


def test_docker() -> None:
    found = runtime_config.parse_docker(
        '{"runtimes": {"nvidia": {"path": "x"}, "odd": 1}, "default-runtime": "nvidia"}'
    )
    assert (found.handlers, found.default) == ({"nvidia": "x", "odd": None}, "nvidia")


def test_later_files_win() -> None:
    parts = [Configuration({"nvidia": "a", "runc": None}, "runc"), Configuration({"nvidia": None}, None, cri=False)]
    found = runtime_config.combined(parts)
    assert (found.handlers, found.default, found.cri) == ({"nvidia": "a", "runc": None}, "runc", False)
    assert runtime_config.combined([*parts, Configuration({"nvidia": "b"}, "nvidia")]).handlers["nvidia"] == "b"
    assert runtime_config.combined([]) == Configuration()


def test_settings_over_several_lines_and_comments() -> None:
    text = '# imports = ["/no"]\nimports = [\n  "/a/*.toml",\n  "/b.toml",\n]\n'
    text += '[cni."x"]\n  bin_dir = "/opt/cni/bin" # here\n'
    assert runtime_config.settings(text) == [
        ("", "imports", '[ "/a/*.toml", "/b.toml", ]'),
        ('cni."x"', "", ""),
        ('cni."x"', "bin_dir", '"/opt/cni/bin"'),
    ]
