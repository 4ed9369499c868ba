#!/usr/bin/python3
# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""make.py FLAVOUR KERNEL: build a flavour's stand-in packages, under the names of the real ones, and their repository.

A stand-in installs what roles look at: files, units, modules and versions. All of its content is this project's own. A
second repository stands for that of the distribution. It has the packages that a bare host lacks and that roles
install.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import typing as t

VERSIONS = ("580.95.05", "580.105.08")
EL_VERSIONS = (*VERSIONS, "590.44.01")
SUBNET_MANAGER, TOOLKIT, CONTAINERD = "2025.06.6", "1.18.0", "1.7.27"
REPOSITORY = "/usr/local/share/repository"
DISTRIBUTION = "/usr/local/share/distribution"
EPEL = "/usr/local/share/epel"
HERE = os.path.dirname(os.path.abspath(__file__))
MODULE = "/usr/local/lib/stand-ins/module"
LIBRARIES = {"rhel": "/usr/lib64"}
LIBRARY_NAMES = ("libnvidia-ml.so", "libcuda.so")

# The names of the packages in each flavour, by content.
NAMES: dict[str, dict[str, list[str]]] = {
    "debian": {
        "open": ["nvidia-kernel-open-dkms"],
        "proprietary": ["nvidia-kernel-dkms"],
        "user": ["nvidia-driver-cuda"],
        "fabricmanager": ["nvidia-fabricmanager"],
        "persistenced": ["nvidia-persistenced"],
        "imex": ["nvidia-imex"],
    },
    "ubuntu": {
        "open": ["nvidia-headless-580-server-open"],
        "proprietary": ["nvidia-headless-580-server"],
        "user": ["nvidia-utils-580-server"],
        "fabricmanager": ["nvidia-fabricmanager-580"],
        "persistenced": ["nvidia-compute-utils-580-server"],
        "imex": ["nvidia-imex-580"],
    },
    "rhel": {
        "open": ["kmod-nvidia-open-dkms"],
        "proprietary": ["kmod-nvidia-latest-dkms"],
        "management": ["libnvidia-ml"],
        "cuda": ["nvidia-driver-cuda-libs"],
        "tools": ["nvidia-driver-cuda"],
        "common": ["nvidia-kmod-common"],
        "persistenced": ["nvidia-persistenced"],
        "fabricmanager": ["nvidia-fabricmanager"],
        "imex": ["nvidia-imex"],
    },
}
# The dependencies in the specs of NVIDIA's packages for EL (github.com/NVIDIA/yum-packaging-*), which have the epoch 3.
RELATIONS = {
    "kmod-nvidia-open-dkms": ("nvidia-kmod-common = 3:{v}", "dkms", "Provides: nvidia-kmod = 3:{v}",
                              "Conflicts: kmod-nvidia-latest-dkms"),
    "kmod-nvidia-latest-dkms": ("nvidia-kmod-common = 3:{v}", "dkms", "Provides: nvidia-kmod = 3:{v}"),
    "nvidia-kmod-common": ("nvidia-kmod = 3:{v}",),
    "nvidia-driver-cuda": ("nvidia-driver-cuda-libs = 3:{v}", "nvidia-kmod-common = 3:{v}",
                           "nvidia-persistenced = 3:{v}"),
    "nvidia-driver-cuda-libs": ("libnvidia-ml = 3:{v}-1.el9",),
    "libnvidia-ml": (),
    "nvidia-persistenced": (),
}  # fmt: skip
LICENSES = {"open": "Dual MIT/GPL", "proprietary": "NVIDIA"}
GPU_ALIASES = ("alias=pci:v000010DEd*sv*sd*bc03sc02i00*", "alias=pci:v000010DEd*sv*sd*bc06sc80i00*")


class Package(t.NamedTuple):
    """A package. ``root`` is the folder with its files, laid out as on the host.

    ``script`` runs after the installation and after the removal, as depmod does for real modules (DKMS).
    """

    name: str
    version: str
    root: str
    script: str = ""
    provides: str = ""
    relations: tuple[str, ...] = ()
    epoch: int = 0


def main(flavour: str, kernel: str) -> None:
    """Build all packages and both repositories."""
    repositories = (REPOSITORY, DISTRIBUTION, *((EPEL,) if flavour == "rhel" else ()))
    for repository in repositories:
        os.makedirs(repository, exist_ok=True)
    build, index = (_rpm, _index_rpms) if flavour == "rhel" else (_deb, _index_debs)
    with tempfile.TemporaryDirectory() as folder:
        for package in _packages(flavour, kernel, folder):
            build(package, DISTRIBUTION if package.name == "kernel-devel" else REPOSITORY)
        kernel_package = Package(
            "kernel-core" if flavour == "rhel" else f"linux-image-{kernel}",
            _kernel_version(kernel),
            _root(folder, "kernel"),
        )
        for name in (f"vmlinuz-{kernel}", f"config-{kernel}"):
            _copy(f"/boot/{name}", kernel_package.root, f"/boot/{name}")
        installer = ["rpm", "--install", "--nodeps", "--replacefiles"] if flavour == "rhel" else ["dpkg", "--install"]
        subprocess.run([*installer, build(kernel_package)], check=True)
        if flavour == "rhel":
            # rpm looks for the shell of packages' scripts in its database.
            bash = Package("bash", "5.1.8", _root(folder, "bash"), provides="/bin/sh")
            subprocess.run([*installer, build(bash)], check=True)
            build(_versionlock(folder), DISTRIBUTION)
            build(Package("dkms", "3.1.8", _root(folder, "dkms")), EPEL)
    for repository in repositories:
        index(repository)
    if flavour == "rhel":
        _add_modules(REPOSITORY)


def _versionlock(folder: str) -> Package:
    """Package the real plugin by itself, as EL does. Debian has one package with several plugins."""
    root = _root(folder, "versionlock")
    for path in (
        "/etc/dnf/plugins/versionlock.conf",
        "/etc/dnf/plugins/versionlock.list",
        "/usr/lib/python3/dist-packages/dnf-plugins/versionlock.py",
    ):
        os.makedirs(os.path.dirname(root + path), exist_ok=True)
        shutil.move(path, root + path)
    return Package("python3-dnf-plugin-versionlock", "4.3.0", root)


def _packages(flavour: str, kernel: str, folder: str) -> t.Iterator[Package]:
    libraries = LIBRARIES.get(flavour, "/usr/lib/x86_64-linux-gnu")
    for version in EL_VERSIONS if flavour == "rhel" else VERSIONS:
        for kind, names in NAMES[flavour].items():
            for name in names:
                root = _root(folder, f"{name}-{version}")
                script = CONTENT[kind](root, version, kernel, libraries, kind)
                relations = tuple(each.format(v=version) for each in RELATIONS.get(name, ()))
                epoch = 3 if flavour == "rhel" and name in RELATIONS else 0
                yield Package(name, version, root, script or "", relations=relations, epoch=epoch)
    for name, version, unit_of in (
        ("nvlsm", SUBNET_MANAGER, None),
        ("nvidia-container-toolkit", TOOLKIT, None),
        ("containerd.io", CONTAINERD, "containerd"),
    ):
        root = _root(folder, name)
        tool = {"nvlsm": "nvlsm", "nvidia-container-toolkit": "nvidia-ctk", "containerd.io": "containerd"}[name]
        _copy(f"{HERE}/{tool}", root, f"/usr/bin/{tool}", executable=True)
        if name == "nvidia-container-toolkit":
            _write(f"{root}/usr/bin/nvidia-container-runtime", '#!/bin/sh\nexec runc "$@"\n')
            os.chmod(f"{root}/usr/bin/nvidia-container-runtime", 0o755)
        if unit_of:
            _copy(f"{HERE}/{unit_of}.service", root, f"/usr/lib/systemd/system/{unit_of}.service")
            _copy(f"{HERE}/containerd.toml", root, "/etc/containerd/config.toml")
        yield Package(name, version, root, "systemctl daemon-reload || true")
    headers = _root(folder, "headers")
    _write(f"{headers}/usr/src/linux-headers-{kernel}/Makefile", f"# stand-in for the headers of {kernel}\n")
    os.makedirs(f"{headers}/lib/modules/{kernel}" if flavour != "rhel" else f"{headers}/usr/lib/modules/{kernel}")
    modules = f"{headers}/{'usr/' if flavour == 'rhel' else ''}lib/modules/{kernel}"
    os.symlink(f"/usr/src/linux-headers-{kernel}", f"{modules}/build")
    # Roles ask for kernel-devel-$(uname -r), which on EL is the package's name and version.
    name, provides = f"linux-headers-{kernel}", ""
    if flavour == "rhel":
        name, provides = "kernel-devel", f"kernel-devel-{kernel}"
    yield Package(name, _kernel_version(kernel), headers, provides=provides)


def _kernel_module(root: str, version: str, kernel: str, libraries: str, kind: str) -> str:
    """Write modules as DKMS leaves them. The real ones are built on the host."""
    del libraries
    folder = f"{root}/usr/lib/modules/{kernel}/updates/dkms"
    license_ = LICENSES[kind]
    for name, fields in {
        "nvidia": GPU_ALIASES,
        "nvidia-uvm": ("depends=nvidia",),
        "nvidia-modeset": ("depends=nvidia",),
        "nvidia-drm": ("depends=nvidia-modeset,drm",),
    }.items():
        subprocess.run(
            [MODULE, f"{folder}/{name}.ko", f"license={license_}", f"version={version}", *fields], check=True
        )
    return f"depmod {kernel}"


def _user_space(root: str, version: str, kernel: str, libraries: str, kind: str) -> None:
    del kernel
    for name in {"management": ("libnvidia-ml.so",), "cuda": ("libcuda.so",), "user": LIBRARY_NAMES}.get(kind, ()):
        _write(f"{root}{libraries}/{name}.{version}", "a stand-in without code\n")
        os.symlink(f"{name}.{version}", f"{root}{libraries}/{name}.1")
    if kind in ("user", "tools"):
        _copy(f"{HERE}/nvidia-smi", root, "/usr/bin/nvidia-smi", executable=True)


def _service(root: str, version: str, kernel: str, libraries: str, kind: str) -> str:
    del kernel, libraries
    _copy(f"{HERE}/nvidia-{kind}", root, f"/usr/bin/nvidia-{kind}", executable=True)
    ubuntus = os.path.basename(root).startswith("nvidia-compute-utils-")
    unit = f"{HERE}/nvidia-{kind}{'-ubuntu' if ubuntus else ''}.service"
    _copy(unit, root, f"/usr/lib/systemd/system/nvidia-{kind}.service")
    _write(f"{root}/usr/share/nvidia-{kind}/version", f"{version}\n")
    return "systemctl daemon-reload || true"


CONTENT: dict[str, t.Callable[[str, str, str, str, str], str | None]] = {
    "open": _kernel_module,
    "proprietary": _kernel_module,
    "user": _user_space,
    "management": _user_space,
    "cuda": _user_space,
    "tools": _user_space,
    "common": _user_space,
    "fabricmanager": _service,
    "persistenced": _service,
    "imex": _service,
}


def _deb(package: Package, repository: str = REPOSITORY) -> str:
    scripts = f"{package.root}/DEBIAN"
    _write(
        f"{scripts}/control",
        f"Package: {package.name}\nVersion: {package.version}-1\nArchitecture: amd64\n"
        f"Maintainer: gpuops.nvidia contributors <none@example.org>\nDescription: a stand-in for tests\n",
    )
    if package.script:
        for script in ("postinst", "postrm"):
            _write(f"{scripts}/{script}", f"#!/bin/sh\n{package.script}\n", executable=True)
    path = f"{repository}/{package.name}_{package.version}-1_amd64.deb"
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Znone", "--build", package.root, path],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return path


def _rpm(package: Package, repository: str = REPOSITORY) -> str:
    files = [
        os.path.join(folder, name).removeprefix(package.root)
        for folder, dummy, names in os.walk(package.root)
        for name in names
    ]
    links = [
        f"{folder}/{name}".removeprefix(package.root)
        for folder, names, dummy in os.walk(package.root)
        for name in names
        if os.path.islink(f"{folder}/{name}")
    ]
    spec = f"{package.root}.spec"
    _write(
        spec,
        f"Name: {package.name}\nVersion: {package.version}\nRelease: 1.el9\nEpoch: {package.epoch}\n"
        + "".join(f"{each if ': ' in each else f'Requires: {each}'}\n" for each in package.relations)
        + "Summary: a stand-in for tests\nLicense: GPL-3.0-or-later\n"
        + (f"Provides: {package.provides}\n" if package.provides else "")
        + "AutoReqProv: no\n%description\nA stand-in for tests.\n%files\n" + "\n".join(sorted({*files, *links})) + "\n"
        + (f"%post\n{package.script}\n%postun\n{package.script}\n" if package.script else ""),
    )  # fmt: skip
    defines = {
        "_rpmdir": repository,
        "_rpmfilename": "%{NAME}-%{VERSION}.rpm",
        "_binary_payload": "w0.gzdio",
        "__os_install_post": "%{nil}",
        "_build_id_links": "none",
        "_unpackaged_files_terminate_build": "0",
    }
    options = [word for name, value in defines.items() for word in ("--define", f"{name} {value}")]
    copied = f"{package.root}.buildroot"
    shutil.copytree(package.root, copied, symlinks=True)
    subprocess.run(
        ["rpmbuild", "-bb", "--quiet", "--target=x86_64", f"--buildroot={copied}", *options, spec], check=True
    )
    return f"{repository}/{package.name}-{package.version}.rpm"


def _index_debs(repository: str) -> None:
    stanzas = []
    for name in sorted(os.listdir(repository)):
        if name.endswith(".deb"):
            path = f"{repository}/{name}"
            control = subprocess.run(["dpkg-deb", "--field", path], check=True, capture_output=True, text=True).stdout
            with open(path, "rb") as file:
                digest = hashlib.sha256(file.read()).hexdigest()
            stanzas.append(f"{control}Filename: ./{name}\nSize: {os.path.getsize(path)}\nSHA256: {digest}\n")
    index = "\n".join(stanzas)
    _write(f"{repository}/Packages", index)
    data = index.encode()
    digest = hashlib.sha256(data).hexdigest()
    _write(
        f"{repository}/Release",
        f"Suite: stand-in\nDate: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n {digest} {len(data)} Packages\n",
    )


def _index_rpms(repository: str) -> None:
    subprocess.run(["createrepo_c", "--quiet", repository], check=True)


def _add_modules(repository: str) -> None:
    """Add the streams of the module nvidia-driver, as NVIDIA's genmodules.py writes them.

    A stream has the user space in every version of its branch, and the modules only in the newest. Fabric manager and
    IMEX are in no stream.
    """
    branches = {version.partition(".")[0]: version for version in EL_VERSIONS}
    newest = max(branches, key=int)
    streams = {f"{branch}{suffix}": branch for branch in branches for suffix in ("-dkms", "-open")}
    streams.update({"latest-dkms": newest, "open-dkms": newest})
    texts = [_stream(stream, branch, branches[branch]) for stream, branch in streams.items()]
    defaults = "".join(f"    {stream}: [default]\n" for stream in streams)
    texts.append(
        "document: modulemd-defaults\nversion: 1\ndata:\n  module: nvidia-driver\n  stream: latest-dkms\n"
        f"  profiles:\n{defaults}"
    )
    path = "/tmp/modules.yaml"
    _write(path, "".join(f"---\n{text}...\n" for text in texts))
    subprocess.run(["modifyrepo_c", path, f"{repository}/repodata"], check=True, stdout=subprocess.DEVNULL)


def _stream(stream: str, branch: str, newest: str) -> str:
    modules = "kmod-nvidia-open-dkms" if "open" in stream else "kmod-nvidia-latest-dkms"
    user_space = [name for name in RELATIONS if not name.startswith("kmod-")]
    versions = [version for version in EL_VERSIONS if version.startswith(f"{branch}.")]
    rpms = [f"{name}-3:{version}-1.el9.x86_64" for name in user_space for version in versions]
    rpms.append(f"{modules}-3:{newest}-1.el9.x86_64")
    lists = {"artifacts": rpms, "profile": sorted([*user_space, modules])}
    text = {key: "".join(f"        - {each}\n" for each in lists[key]) for key in lists}
    return (
        f"document: modulemd\nversion: 2\ndata:\n  name: nvidia-driver\n  stream: {stream}\n"
        f"  version: 20260101000000\n  context: {hashlib.sha256(stream.encode()).hexdigest()[:10]}\n  arch: x86_64\n"
        f"  summary: Nvidia driver for {stream} branch\n  description: >-\n    A stand-in for tests.\n"
        f"  license:\n    module:\n    - MIT\n  artifacts:\n    rpms:\n{text['artifacts']}"
        f"  profiles:\n    default:\n      rpms:\n{text['profile']}"
    )


def _kernel_version(kernel: str) -> str:
    """Return a package version for a kernel release: a version has no hyphens."""
    return kernel.replace("-", ".")


def _root(folder: str, name: str) -> str:
    path = f"{folder}/{name}"
    os.makedirs(path)
    os.chmod(path, 0o755)
    return path


def _copy(source: str, root: str, path: str, executable: bool = False) -> None:
    with open(source, encoding="utf-8") as file:
        _write(root + path, file.read(), executable)


def _write(path: str, text: str, executable: bool = False) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o755 if executable else 0o644)


if __name__ == "__main__":
    main(*sys.argv[1:])
