# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import restarts
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.settings.container_runtime import configure
from inline_snapshot import snapshot as wording

from tests.unit.fakes.host import FakeHost, recorded

CONFIG, DROP_IN = "/etc/containerd/config.toml", "/etc/containerd/conf.d/99-nvidia.toml"
PROGRAM = "/usr/bin/nvidia-container-runtime"
BARE = recorded("runtimes/containerd-bare.toml")
WHOLE = recorded("runtimes/nvidia-ctk-1.17-dry-run.toml")
IMPORTED = recorded("runtimes/nvidia-ctk-1.18-drop-in.toml")


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    host = FakeHost(tmp_path)
    host.put(CONFIG, BARE)
    host.put(PROGRAM, "")
    Path(host.path(PROGRAM)).chmod(0o755)
    return host


def ctk_1_17(host: FakeHost) -> t.Callable[[list[str]], str]:
    """Return nvidia-ctk as it was before 1.18: it writes the main file, or prints it."""

    def run(command: list[str]) -> str:
        if "--help" in command:
            return "--config\n"
        if "--dry-run" in command:
            return WHOLE
        host.put(CONFIG, WHOLE)
        return ""

    return run


def ctk_1_18(host: FakeHost) -> t.Callable[[list[str]], str]:
    """Return nvidia-ctk as it is from 1.18 on: it writes a file that the main file imports."""

    def run(command: list[str]) -> str:
        if "--help" in command:
            return "--drop-in-config value  path to the NVIDIA-specific config file to create\n"
        host.put(DROP_IN, IMPORTED)
        host.put(CONFIG, f'imports = ["/etc/containerd/conf.d/*.toml"]\n{BARE}')
        return ""

    return run


OPTION = f"--drop-in-config={DROP_IN}"


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
    assert predicted["restart"] is done["restart"] is True
    for check_mode in (True, False):
        again = configure(host, options(), check_mode)
        assert again == {"changed": False, "diff": [], "restart": True}, "Nobody has restarted containerd."
    restarts.remove_mark(host, "containerd.service")
    assert configure(host, options(), False)["restart"] is False


def test_a_file_that_the_main_file_imports_counts(host: FakeHost) -> None:
    host.commands["nvidia-ctk"] = ctk_1_18(host)
    done = configure(host, options(default=True), False)
    assert [each["after_header"] for each in done["diff"]] == [CONFIG, DROP_IN]
    assert host.ran[-1] == ["nvidia-ctk", "runtime", "configure", "--runtime=containerd", "--set-as-default", OPTION]
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
    with pytest.raises(GpuOpsError) as error:
        configure(host, options(), check_mode)
    assert error.value.reason == "Unsupported"
    assert error.value.msg == wording(
        "nvidia-ctk could not configure containerd: nvidia-ctk ended with 1: unable to load config for runtime containerd."
    )


def test_a_configuration_that_is_read_from_elsewhere_is_noticed(host: FakeHost) -> None:
    host.commands["nvidia-ctk"] = ""
    with pytest.raises(GpuOpsError) as error:
        configure(host, options(default=True), False)
    assert error.value.reason == "Unsupported"
    assert error.value.msg == wording(
        "nvidia-ctk ended without an error, but the configuration of containerd has no runtime nvidia: see whether containerd uses another file."
    )


TOOLKIT = "/usr/local/nvidia/toolkit/nvidia-container-runtime"


@pytest.mark.parametrize(
    ("text", "default", "gap"),
    [
        (WHOLE.replace("version = 2", "version = 3"), False, "has no runtime nvidia"),
        (WHOLE.replace(PROGRAM, "/usr/bin/gone"), False, "its configuration names /usr/bin/gone"),
        (WHOLE.replace(PROGRAM, TOOLKIT), False, "toolkit container"),
        (f'disabled_plugins = ["cri"]\n{WHOLE}', False, "disabled_plugins in /etc/containerd/config.toml"),
        (WHOLE, True, "the default runtime of containerd is"),
    ],
)
def test_what_the_runtime_would_not_use_is_configured_again_or_named(
    host: FakeHost, text: str, default: bool, gap: str
) -> None:
    host.put(TOOLKIT, "")
    Path(host.path(TOOLKIT)).chmod(0o755)
    host.put(CONFIG, text)
    host.commands["nvidia-ctk"] = ""
    assert configure(host, options(default), True)["changed"]
    with pytest.raises(GpuOpsError, match=gap) as error:
        configure(host, options(default), False)
    assert error.value.reason == "Unsupported"


def test_crio_gets_the_file_in_the_folder_that_it_reads(host: FakeHost) -> None:
    written = recorded("runtimes/crio-99-nvidia.conf").replace(TOOLKIT, PROGRAM)

    def ctk(command: list[str]) -> str:
        if "--help" in command:
            return "--drop-in-config value\n"
        path = command[-1].partition("--drop-in-config=")[2] or "/etc/crio/conf.d/99-nvidia.toml"
        host.put(path, written)
        return ""

    host.commands["nvidia-ctk"] = ctk
    host.put("/etc/crio/crio.conf.d/10-crio.conf", recorded("runtimes/crio-10-runc.conf"))
    asked = {"name": "crio", "default": True}
    [diff] = configure(host, asked, False)["diff"]
    assert diff["after_header"] == "/etc/crio/crio.conf.d/99-nvidia.conf"
    assert not configure(host, asked, False)["changed"]


def test_a_run_that_is_killed_before_the_restart_leaves_it_to_the_next_one(host: FakeHost) -> None:
    def killed(command: list[str]) -> str:
        if "--help" not in command:
            host.put(CONFIG, WHOLE)
            raise KeyboardInterrupt
        return ""

    host.commands["nvidia-ctk"] = killed
    with pytest.raises(KeyboardInterrupt):
        configure(host, options(), False)
    assert configure(host, options(), True) == {"changed": False, "diff": [], "restart": True}


def test_nvidia_ctk_that_writes_nothing_leaves_no_mark(host: FakeHost) -> None:
    host.commands["nvidia-ctk"] = ""
    with pytest.raises(GpuOpsError):
        configure(host, options(), False)
    assert restarts.owed(host) == []
