# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""The driver's packages on Debian and Ubuntu: what apt offers, what it would do, and its transactions."""

from __future__ import annotations

import contextlib
import functools
import re
import time
import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.apt_locks import patiently
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.kernel import installed_kernels
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host, Output
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages import apt_names
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.family import KEPT, Family
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.packages.planner_types import (
    Layout,
    Observed,
    Outcome,
    Package,
    Request,
    Transaction,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._text import one_line

ARCHIVES = "/var/cache/apt/archives"
LISTS = "/var/lib/apt/lists"
LISTS_LAST_S = 3600.0
"""How old the lists of packages may be if no source of packages has changed since."""

QUERY_TIMEOUT_S = 120.0
TRANSACTION_TIMEOUT_S = 3600.0
"""Building the modules takes minutes, and a transaction that is killed leaves the host with half a driver."""

_PREFERENCES = "/etc/apt/preferences.d"
_JOURNAL = "/var/lib/dpkg/updates"
# apt reads its pins from this folder during a transaction: the host's own pins, and those of the transaction.
_TRANSIENT = "/run/gpuops/preferences.d"
_DPKG_FIELDS = (
    r"${binary:Package}\t${Architecture}\t${db:Status-Want}\t${db:Status-Status}\t${Version}\t${Maintainer}\n"
)
_ABSENT = ("not-installed", "config-files")
_UNFINISHED = ("half-installed", "unpacked", "half-configured")
_NOT_COMPLETED = "An installation that was cut off cannot be completed"
_STEP = re.compile(r"^(Inst|Remv) (\S+)(?: \[[^\]]*\])?(?: \((\S+))?", re.MULTILINE)


class Apt(Family):
    """The packages of a host with apt."""

    def __init__(self, host: Host, lock_timeout_s: float) -> None:
        self.host = host
        self.lock_timeout_s = lock_timeout_s

    # ---- what there is --------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Update the lists of packages if they are missing, as on a new image, or old, or older than a source."""
        sources = ["/etc/apt/sources.list", "/etc/apt/sources.list.d", *self.host.glob("/etc/apt/sources.list.d/*")]
        newest_source = max(map(self.host.changed_at, sources))
        fresh = self.host.changed_at(LISTS) >= max(newest_source, time.time() - LISTS_LAST_S)
        if not fresh or not self.host.glob(f"{LISTS}/*_Packages*"):
            self._done(self._patiently(["apt-get", "--quiet", "update"]), "The lists of packages cannot be updated")

    def installed(self) -> list[Package]:
        """Return the installed packages of the driver and of kernels. Foreign ones have their architecture's name."""
        native = self._asked(["dpkg", "--print-architecture"]).strip()
        rows = self._asked(["dpkg-query", "--show", f"--showformat={_DPKG_FIELDS}"]).splitlines()
        found = []
        for binary, architecture, want, status, version, maintainer in (row.split("\t") for row in rows if row):
            name = binary.partition(":")[0]
            if status in _ABSENT or not apt_names.relevant(name):
                continue
            full = name if architecture in (native, "all") else f"{name}:{architecture}"
            found.append(Package(full, version, apt_names.origin_of(maintainer), want == "hold"))
        return found

    def unfinished(self) -> list[str]:
        """Return the driver's packages whose installation was cut off, or has failed."""
        rows = self._asked(["dpkg-query", "--show", r"--showformat=${Package}\t${db:Status-Status}\n"]).splitlines()
        states = (row.partition("\t") for row in rows)
        return [name for name, dummy, state in states if state in _UNFINISHED and apt_names.relevant(name)]

    def offered(self) -> list[Package]:
        """Return every version of the driver's packages, and of the headers and modules of the host's kernels."""
        candidates = {
            (fields["Package"], fields["Version"]) for fields in self._shown(self._names, "--no-all-versions")
        }
        return [
            Package(
                name=fields["Package"],
                version=fields["Version"],
                origin=apt_names.origin_of(fields.get("Maintainer", "")),
                candidate=(fields["Package"], fields["Version"]) in candidates,
            )
            for fields in self._offered
        ]

    @functools.cached_property
    def _offered(self) -> list[dict[str, str]]:
        # A stanza with a status comes from dpkg: no repository offers this version.
        return [fields for fields in self._shown(self._names) if "Status" not in fields]

    @functools.cached_property
    def _names(self) -> list[str]:
        known = self._asked(["apt-cache", "pkgnames"]).split()
        kernels = {*installed_kernels(self.host), self.host.read("/proc/sys/kernel/osrelease") or ""}
        flavours = {package.name.partition("linux-image-")[2] for package in self.installed()} - {""}
        return sorted(name for name in known if _of_this_host(name, kernels | flavours))

    def _shown(self, names: t.Sequence[str], *options: str) -> list[dict[str, str]]:
        """Return the stanzas of packages: all versions, or the candidates only."""
        text = self._asked(["apt-cache", "show", *options, *names]) if names else ""
        stanzas = (dict(re.findall(r"^([A-Z][\w-]*): (.*)$", each, re.MULTILINE)) for each in text.split("\n\n"))
        return [fields for fields in stanzas if "Version" in fields]

    def owners(self, paths: t.Sequence[str]) -> dict[str, str | None]:
        """Return the package that owns each file."""
        return {path: self._owner(path) for path in paths}

    def _owner(self, path: str) -> str | None:
        rows = self.host.run(["dpkg-query", "--search", path], QUERY_TIMEOUT_S).stdout.splitlines()
        owned = [row for row in rows if row.endswith(f": {path}") and not row.startswith("diversion ")]
        return owned[0].partition(":")[0].partition(",")[0] if owned else None

    def dgx_release(self) -> str | None:
        """Return the name and version of NVIDIA's system for DGX machines, or None."""
        text = self.host.read("/etc/dgx-release")
        if text is None:
            return None
        version = re.search(r'^DGX_(?:OTA|SWBUILD)_VERSION="?([\w.]+)', text, re.MULTILINE)
        return f"DGX OS {version[1]}" if version else "DGX OS"

    # ---- names ----------------------------------------------------------------------------------------------------

    def recognise(self, installed: t.Sequence[Package], owners: t.Collection[str]) -> tuple[str | None, str | None]:
        """Return whose driver is installed, and its flavour."""
        return apt_names.recognise(installed, owners)

    def layouts(self, request: Request, observed: Observed, branch: str, flavour: str) -> list[Layout]:
        """Return the layouts of a branch, in order of preference."""
        return apt_names.layouts(request, observed, branch, flavour)

    def removal(self, observed: Observed) -> list[str]:
        """Return the installed packages that a removal of the driver removes."""
        return apt_names.removal(observed)

    def pins(self, request: Request, version: str | None) -> dict[str, str | None]:
        """Return the file of pins."""
        return apt_names.pins(request, version)

    # ---- what is done ---------------------------------------------------------------------------------------------

    def simulate(self, transaction: Transaction) -> Outcome:
        """Ask apt what it would do with the pins of the transaction."""
        with self._pinned(transaction):
            output = self.host.run([*self._install("--simulate"), *_words(transaction)], QUERY_TIMEOUT_S)
        if not output.ok:
            return Outcome(error=_refusal(output))
        steps = _STEP.findall(output.stdout)
        installed = {name: version for step, name, version in steps if step == "Inst"}
        return Outcome(
            installed, tuple(name for step, name, dummy in steps if step == "Remv" and name not in installed)
        )

    def apply(self, transaction: Transaction) -> None:
        """Complete what an earlier run was killed in, then install and remove in one go, and write the pins."""
        if self._was_cut_off():
            self._complete(transaction)
        if not transaction.empty:
            held = self._held(transaction)
            with self._pinned(transaction), self._released(held):
                command = [*self._install("--yes"), *_words(transaction)]
                self._done(self._patiently(command), "apt could not change the driver's packages")
        for path, text in transaction.pins.items():
            self.host.remove(path) if text is None else self.host.write(path, text)
        for name in ("_offered", "_names"):
            self.__dict__.pop(name, None)

    def _was_cut_off(self) -> bool:
        """Return whether dpkg has something to complete. apt refuses to work while dpkg has a journal."""
        return bool(self.unfinished() or self.host.glob(f"{_JOURNAL}/[0-9]*"))

    def _complete(self, transaction: Transaction) -> None:
        """Complete what was cut off. What a transaction is about to replace, such as modules that cannot be built, may
        fail."""
        completed = self._patiently(["dpkg", "--configure", "-a"])
        if transaction.empty:
            self._done(completed, _NOT_COMPLETED)
            if self.unfinished():
                self._done(self._patiently([*self._install("--yes"), "--fix-broken"]), _NOT_COMPLETED)

    def _held(self, transaction: Transaction) -> list[str]:
        """Return the packages on hold that the transaction touches, itself or through dependencies."""
        outcome = self.simulate(transaction)
        touched = {*outcome.install, *outcome.remove, *transaction.install, *transaction.remove}
        return [package.name for package in self.installed() if package.held and package.name in touched]

    @contextlib.contextmanager
    def _released(self, held: t.Sequence[str]) -> t.Iterator[None]:
        """Release holds, and put them back on what is still installed."""
        if held:
            self._mark("unhold", held)
        try:
            yield
        finally:
            left = [package.name for package in self.installed() if package.name in held]
            if left:
                self._mark("hold", left)

    def _mark(self, action: t.Literal["hold", "unhold"], names: t.Sequence[str]) -> None:
        output = patiently(self.host, ["apt-mark", action, *names], QUERY_TIMEOUT_S, self.lock_timeout_s)
        self._done(output, f"apt-mark {action} failed")

    @contextlib.contextmanager
    def _pinned(self, transaction: Transaction) -> t.Iterator[None]:
        """Let apt hold every dependency at the driver's version, as it does not go back for them by itself."""
        paths = [path for path in self.host.glob(f"{_PREFERENCES}/*") if path != apt_names.PINS]
        files = {path.rpartition("/")[2]: self.host.read(path) or "" for path in paths}
        if transaction.version:
            files["gpuops-nvidia"] = apt_names.transient_pins(transaction.version)
        for name, text in files.items():
            self.host.write(f"{_TRANSIENT}/{name}", text + "\n")
        try:
            yield
        finally:
            for name in self.host.names(_TRANSIENT):
                self.host.remove(f"{_TRANSIENT}/{name}")

    def _install(self, mode: str) -> list[str]:
        options = ["--no-install-recommends", "--allow-downgrades", "--allow-change-held-packages"]
        settings = [f"Dir::Etc::PreferencesParts={_TRANSIENT}"]
        # The maintainer's questions about files that the user has changed: keep the user's.
        settings += ["Dpkg::Options::=--force-confdef", "Dpkg::Options::=--force-confold"]
        return ["apt-get", "--quiet", mode, *options, *(f"--option={each}" for each in settings), "install"]

    def keep(self, packages: t.Mapping[str, str]) -> list[str]:
        """Download the packages that the repositories still offer. Files of an earlier change stay."""
        offered = {(package.name, package.version) for package in self.offered()}
        kept = self.kept(packages)
        wanted = [
            f"{name}={packages[name]}" for name in packages if name not in kept and (name, packages[name]) in offered
        ]
        if wanted:
            self.host.run(["mkdir", "--parents", KEPT])
            # Unlike install --download-only, this also copies from repositories on the disk.
            self._patiently(["apt-get", "--quiet", "download", *wanted], KEPT)
        kept = self.kept(packages)
        return [f"{name}={version}" for name, version in packages.items() if name not in kept]

    def kept(self, packages: t.Mapping[str, str]) -> dict[str, str]:
        """Return the files of packages that are on the disk, here or in apt's own cache."""
        found = {}
        for name, version in packages.items():
            file = f"{name.partition(':')[0]}_{version.replace(':', '%3a')}_*.deb"
            paths = self.host.glob(f"{KEPT}/{file}") + self.host.glob(f"{ARCHIVES}/{file}")
            if paths:
                found[name] = paths[0]
        return found

    # ---- commands -------------------------------------------------------------------------------------------------

    def _asked(self, command: t.Sequence[str]) -> str:
        output = self.host.run(command, QUERY_TIMEOUT_S)
        # apt-cache show ends with 100 if it does not know one of many packages.
        if not output.ok and not output.stdout:
            raise GpuOpsError(f"The package manager does not answer: {output.error}.", reason="PackageManager")
        return output.stdout

    def _patiently(self, command: t.Sequence[str], folder: str = "/") -> Output:
        """Run a command that needs apt's locks."""
        settings = ["DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_MODE=l"]
        whole = ["env", f"--chdir={folder}", *settings, *command]
        return patiently(self.host, whole, TRANSACTION_TIMEOUT_S, self.lock_timeout_s)

    def _done(self, output: Output, problem: str) -> None:
        if not output.ok:
            raise GpuOpsError(f"{problem}: {_refusal(output)}.", reason="PackageManager")


def _of_this_host(name: str, kernels: t.Collection[str]) -> bool:
    """Return whether a package is of interest. Ubuntu offers thousands for the kernels of other hosts."""
    if name.startswith("linux-headers-"):
        return name.partition("linux-headers-")[2] in kernels
    if name.startswith(("linux-modules-nvidia-", "linux-objects-nvidia-", "linux-signatures-nvidia-")):
        return any(name.endswith(f"-{kernel}") for kernel in kernels if kernel)
    return apt_names.relevant(name) and not name.startswith("linux-image-")


def _words(transaction: Transaction) -> list[str]:
    install = [f"{name}={version}" if version else name for name, version in transaction.install.items()]
    return [*install, *transaction.local, *(f"{name}-" for name in transaction.remove)]


def _refusal(output: Output) -> str:
    """Return apt's reason on one line: the dependencies that cannot be met, or the step that failed."""
    lines = [line.strip() for line in output.stdout.splitlines()]
    if "The following packages have unmet dependencies:" in lines:
        start = lines.index("The following packages have unmet dependencies:")
        return one_line(" ".join(lines[start + 1 : start + 4]))
    telling = [line for line in lines if line.startswith(("Error! ", "dpkg: error", "E: "))]
    errors = [line for line in output.stderr.splitlines() if line.startswith("E: ")]
    return one_line((telling + errors or [str(output.error)])[0])
