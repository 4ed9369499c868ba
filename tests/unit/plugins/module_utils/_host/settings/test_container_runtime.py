# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.container_runtime import configure

from tests.unit.fakes.host import FakeHost, recorded

CONFIG, DROP_IN = "/etc/containerd/config.toml", "/etc/containerd/conf.d/99-nvidia.toml"
BARE = recorded("runtimes/containerd-bare.toml")
WHOLE = recorded("runtimes/nvidia-ctk-1.17-dry-run.toml")
IMPORTED = recorded("runtimes/nvidia-ctk-1.18-drop-in.toml")


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    host = FakeHost(tmp_path)
    host.put(CONFIG, BARE)
    return host


def ctk_1_17(host: FakeHost) -> t.Callable[[list[str]], str]:
    """Return nvidia-ctk as it was before 1.18: it writes the main file, or prints it."""

    def run(command: list[str]) -> str:
        if "--dry-run" in command:
            return WHOLE
        host.put(CONFIG, WHOLE)
        return ""

    return run


def ctk_1_18(host: FakeHost) -> t.Callable[[list[str]], str]:
    """Return nvidia-ctk as it is from 1.18 on: it writes a file that the main file imports."""

    def run(command: list[str]) -> str:
        host.put(DROP_IN, IMPORTED)
        host.put(CONFIG, f'imports = ["/etc/containerd/conf.d/*.toml"]\n{BARE}')
        return ""

    return run


def options(default: bool = False) -> dict[str, t.Any]:
    return {"name": "containerd", "default": default}


def test_check_mode_shows_what_the_run_then_writes_and_a_rerun_changes_nothing(host: FakeHost) -> None:
    host.commands["nvidia-ctk"] = ctk_1_17(host)
    predicted = configure(host, options(), True)
    assert host.read(CONFIG) == BARE.rstrip("\n")
    done = configure(host, options(), False)
    assert predicted["changed"] and done["changed"]
    assert [{key: each[key].rstrip("\n") for key in each} for each in predicted["diff"]] == [
        {key: each[key].rstrip("\n") for key in each} for each in done["diff"]
    ]
    for check_mode in (True, False):
        assert configure(host, options(), check_mode) == {"changed": False, "diff": []}


def test_a_file_that_the_main_file_imports_counts(host: FakeHost) -> None:
    host.commands["nvidia-ctk"] = ctk_1_18(host)
    done = configure(host, options(default=True), False)
    assert [each["after_header"] for each in done["diff"]] == [CONFIG, DROP_IN]
    assert host.ran[-1] == ["nvidia-ctk", "runtime", "configure", "--runtime=containerd", "--set-as-default"]
    assert not configure(host, options(default=True), False)["changed"]


def test_the_default_is_a_change_of_its_own(host: FakeHost) -> None:
    host.put(CONFIG, WHOLE)
    host.commands["nvidia-ctk"] = ctk_1_18(host)
    assert not configure(host, options(), True)["changed"]
    assert configure(host, options(default=True), True)["changed"]


def test_a_check_before_the_toolkit_is_installed_predicts_the_change(host: FakeHost) -> None:
    (diff,) = configure(host, options(), True)["diff"]
    assert diff["before"] == BARE and diff["after"].startswith(BARE) and "adds NVIDIA's runtime" in diff["after"]
    host.remove(CONFIG)
    assert configure(host, options(), True)["diff"][0]["before"] == ""


@pytest.mark.parametrize("check_mode", [True, False])
def test_nvidia_ctk_that_fails_is_one_message(host: FakeHost, check_mode: bool) -> None:
    def fail(command: list[str]) -> str:
        raise OSError("unable to load config for runtime containerd")

    host.commands["nvidia-ctk"] = fail
    with pytest.raises(GpuOpsError, match=r"could not configure containerd: .*unable to load config"):
        configure(host, options(), check_mode)


def test_a_configuration_that_is_read_from_elsewhere_is_noticed(host: FakeHost) -> None:
    host.commands["nvidia-ctk"] = ""
    with pytest.raises(
        GpuOpsError, match="has no runtime of NVIDIA as its default: see whether containerd uses another"
    ):
        configure(host, options(default=True), False)
