# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Container hosts: what they show, and that a boot applies exactly what is configured."""

from __future__ import annotations

import os
import signal
import subprocess
import typing as t
from pathlib import Path

import pytest

from lab.hosts import ContainerHosts, LabError, Machine
from lab.hosts.containers.hosts import ContainerHost
from tests.support.hosts import running_containers

pytestmark = pytest.mark.slow("hosts boot and reboot")

BLACKLIST = "printf 'blacklist nouveau\\n' > /etc/modprobe.d/test.conf"
FAMILIES = ["debian", pytest.param("ubuntu", marks=pytest.mark.wide), "rhel"]
INITRAMFS = {"debian": "update-initramfs -u", "ubuntu": "update-initramfs -u", "rhel": "dracut --quiet --force"}


@pytest.fixture(scope="module", params=FAMILIES)
def host(request: pytest.FixtureRequest, container_hosts: ContainerHosts) -> ContainerHost:
    return next(host for host in container_hosts.hosts() if host.flavour == request.param)


def loaded(host: ContainerHost) -> set[str]:
    return {line.split()[0] for line in host.run("lsmod").splitlines()[1:]}


def add_argument(host: ContainerHost, argument: str) -> None:
    if host.flavour == "rhel":
        host.run("grubby", "--update-kernel=ALL", f"--args={argument}")
    else:
        line = f'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {argument}"'
        host.shell(f"echo '{line}' > /etc/default/grub.d/test.cfg && update-grub")


def test_shows_the_gpus_bound_to_nouveau(host: ContainerHost) -> None:
    devices = host.run("lspci", "-nnk", "-d", "10de:")
    assert devices.count("[10de:2330]") == 2
    assert devices.count("Kernel driver in use: nouveau") == 2
    assert {"nouveau", "drm"} <= loaded(host)


RIGHTS = "grep Cap /proc/self/status; ulimit -H -n; grep devices /proc/self/cgroup; id; umask; env | sort"


def test_a_command_has_the_environment_and_the_rights_that_the_container_gives(host: ContainerHost) -> None:
    """As runc starts it, which is the slower way. So a role cannot reach the devices of the machine of the tests."""
    identity = host.identity.read_text()
    by_runc = subprocess.run(["runc", "exec", identity, "sh", "-c", RIGHTS], capture_output=True, text=True, check=True)
    ours = {"container_uuid"}  # systemd's, for itself
    expected = [line for line in by_runc.stdout.strip().splitlines() if line.partition("=")[0] not in ours]
    assert host.shell(RIGHTS).splitlines() == expected
    # The Go runtime of runc 1.1 raises this limit of its own, and on a busy machine its command may inherit that.
    assert host.shell("ulimit -n") == "1024"
    with pytest.raises(LabError, match=r"not permitted|denied"):
        host.shell("mknod /tmp/disk b 254 0 && head -c 1 /tmp/disk")
    with pytest.raises(LabError, match=r"not permitted|denied"):
        host.shell("mount -t tmpfs none /mnt")


def test_a_command_outlives_the_group_of_its_caller(host: ContainerHost) -> None:
    """As over SSH: a run of Ansible that is killed leaves its command running."""
    group, session = host.shell("ps -o pgid=,sid= $$").split()
    assert group == session


def test_has_a_kernel_and_an_initramfs(host: ContainerHost) -> None:
    release = os.uname().release
    image = f"/boot/initramfs-{release}.img" if host.flavour == "rhel" else f"/boot/initrd.img-{release}"
    tool = "lsinitrd" if host.flavour == "rhel" else "lsinitramfs"
    assert f"{release}/kernel" in host.run(tool, image)
    assert host.read(f"/boot/vmlinuz-{release}")


def test_arguments_and_modules_change_with_the_boot(host: ContainerHost) -> None:
    add_argument(host, "intel_iommu=on iommu=pt")
    host.shell(f"{BLACKLIST} && {INITRAMFS[host.flavour]}")
    assert "intel_iommu" not in host.read("/proc/cmdline")
    assert "nouveau" in loaded(host)
    assert host.run("ls", "/sys/kernel/iommu_groups") == ""

    host.reboot()

    assert host.read("/proc/cmdline").endswith("intel_iommu=on iommu=pt")
    assert "nouveau" not in loaded(host)
    groups = host.run("ls", "/sys/kernel/iommu_groups").split()
    assert {host.read(f"/sys/kernel/iommu_groups/{group}/type") for group in groups} == {"identity"}


def test_sysctls_belong_to_the_container(host: ContainerHost) -> None:
    real = Path("/proc/sys/vm/nr_hugepages").read_text()
    host.run("sysctl", "-w", "vm.nr_hugepages=17")
    assert host.read("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages") == "17"
    assert Path("/proc/sys/vm/nr_hugepages").read_text() == real
    host.shell("echo 'kernel.numa_balancing = 7' > /etc/sysctl.d/90-test.conf")
    host.reboot()
    assert host.read("/proc/sys/vm/nr_hugepages") == real.strip()
    assert host.read("/proc/sys/kernel/numa_balancing") == "7"


def test_the_kernel_of_the_machine_is_out_of_reach(host: ContainerHost) -> None:
    with pytest.raises(LabError):
        host.shell("mount -t proc proc /mnt")
    with pytest.raises(LabError):
        host.shell("echo 1 > /proc/sysrq-trigger")


@pytest.mark.wide
def test_nouveau_in_the_initramfs_needs_a_new_initramfs_to_go_away() -> None:
    with running_containers("initramfs", {"rhel": 1}) as hosts:
        [host] = hosts.hosts()
        host.shell(BLACKLIST)
        host.reboot()
        assert "nouveau" in loaded(host)
        host.run("dracut", "--force")
        host.reboot()
        assert "nouveau" not in loaded(host)


def test_a_module_that_the_kernel_forbids_is_not_loaded(container_host: ContainerHost) -> None:
    add_argument(container_host, "module_blacklist=nouveau")
    container_host.reboot()
    assert "nouveau" not in loaded(container_host)
    with pytest.raises(LabError, match="Operation not permitted"):
        container_host.run("modprobe", "nouveau")


@pytest.mark.wide
def test_vfio_takes_the_gpus_when_it_comes_first(container_host: ContainerHost) -> None:
    container_host.shell("echo 'options vfio-pci ids=10de:2330' > /etc/modprobe.d/vfio.conf")
    container_host.shell("echo vfio-pci > /etc/modules-load.d/vfio.conf")
    container_host.reboot()
    assert container_host.run("lspci", "-k", "-d", "10de:").count("Kernel driver in use: vfio-pci") == 2
    with pytest.raises(LabError, match="in use by: vfio_pci_core"):
        container_host.run("rmmod", "vfio")


@pytest.mark.parametrize(("cpu", "before"), [pytest.param("intel", 0, marks=pytest.mark.wide), ("amd", 5)])
def test_intel_iommu_is_off_and_amd_iommu_on_by_default(cpu: str, before: int) -> None:
    with running_containers("cpu", {"debian": 1}, Machine(cpu=cpu)) as hosts:
        [host] = hosts.hosts()
        assert len(host.run("ls", "/sys/kernel/iommu_groups").split()) == before


def test_a_command_that_is_stopped_and_killed_has_ended(container_host: ContainerHost) -> None:
    command = subprocess.Popen([container_host.podman.enter, container_host.name, "sleep", "1000"])
    try:
        container_host.shell("until pkill -STOP -x sleep; do sleep 0.1; done; sleep 1; pkill -KILL -x sleep")
        assert command.wait(timeout=20) == 128 + signal.SIGKILL
    finally:
        command.kill()


def test_a_host_with_a_broken_initramfs_does_not_come_back(container_host: ContainerHost) -> None:
    container_host.shell("for image in /boot/initrd.img-*; do : > $image; done")
    before = container_host.boot_id
    container_host.run("systemctl", "reboot")
    with pytest.raises(LabError, match="Kernel panic"):
        container_host.wait(other_than=before)


def test_inventory_for_ansible(container_hosts: ContainerHosts, tmp_path: Path) -> None:
    import yaml

    inventory = tmp_path / "inventory.yml"
    inventory.write_text(yaml.safe_dump(container_hosts.inventory()))
    facts = _ansible(
        inventory,
        "ansible.builtin.setup",
        "filter=ansible_distribution,ansible_os_family,ansible_pkg_mgr,ansible_processor",
    )
    for said in ('"Debian"', '"Ubuntu"', '"Rocky"', '"RedHat"', '"dnf"', '"apt"', '"GenuineIntel"'):
        assert said in facts


def _ansible(inventory: Path, module: str, arguments: str) -> str:
    root = Path(__file__).resolve().parents[3]
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(root / ".venv/share"),
        "ANSIBLE_HOME": str(root / "build/ansible"),
    }
    command: list[t.Any] = [root / ".venv/bin/ansible", "gpu_hosts", "-i", inventory, "-m", module, "-a", arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_an_unknown_flavour_is_refused() -> None:
    with pytest.raises(LabError, match=r"Unknown flavour arch\. Choose from debian, ubuntu, rhel"):
        ContainerHosts("nothing").up({"arch": 1})
