#!/usr/bin/python

# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_facts
short_description: Gather facts about the GPUs of a Linux host, with or without a driver
version_added: 0.1.0
author: gpuops.nvidia contributors (@gpuops)
description:
  - Gathers a host's GPUs, NVSwitches, driver, kernel, IOMMU, services, container runtimes and errors, and whether the
    host needs a reboot. The facts are in C(ansible_facts.gpuops).
  - Reads sysfs, procfs and the table of PCI ids. Also asks NVML if its library and the Python package C(nvidia-ml-py)
    are installed, and C(nvidia-smi) otherwise. The facts about MIG always come from NVML. If the driver is in a driver
    container, the container's library or C(nvidia-smi) is used.
  - If a source is missing, fails or hangs, the task still succeeds. The facts of the source are null, and C(sources)
    has the source of every fact or the reason why it is null.
  - Runs with the host's own Python, without further packages. Facts that only root can read are null for other
    users.
attributes:
  facts:
    description: Returns facts of the host.
    support: full
  platform:
    description: Systems that the module can run on.
    support: full
    platforms: linux
extends_documentation_fragment:
  - gpuops.nvidia.read_only
options:
  gather_subset:
    description:
      - Which facts to gather, as in M(ansible.builtin.setup). V(all), V(min), or any of V(system), V(pci), V(gpus),
        V(nics), V(driver), V(nouveau), V(kernel), V(secure_boot), V(iommu), V(passthrough), V(acs), V(services),
        V(runtimes), V(xid), V(hugepages), V(numa), V(node), V(files), V(reboot) and V(initramfs), each with a V(!)
        before it to exclude it.
      - V(min) is V(system), V(pci), V(driver), V(nouveau) and V(kernel). It is part of every subset, unless V(!all) and
        V(!min) exclude it.
      - V(pci) is what sysfs shows of the GPUs. V(gpus) also asks the driver.
      - V(initramfs) reads the whole initramfs of the next boot, which takes seconds. It must be named, because V(all)
        does not include it.
    type: list
    elements: str
    default: [all]
  gather_timeout:
    description: Seconds that a source may take. If the driver hangs, the facts of all other sources are returned.
    type: int
    default: 10
  driver_root:
    description:
      - Where the host finds the file system of a driver container, C(hostPaths.driverInstallDir) in the operator's
        values.
    type: path
    default: /run/nvidia/driver
seealso:
  - module: ansible.builtin.setup
  - module: gpuops.nvidia.gpu_stack_info
"""

EXAMPLES = r"""
- name: Gather the facts
  gpuops.nvidia.gpu_facts:

- name: Fail if a GPU is lost or its memory is failing
  ansible.builtin.assert:
    that:
      - ansible_facts.gpuops.gpus | selectattr('lost') | length == 0
      - ansible_facts.gpuops.gpus | selectattr('remapped_rows.failure', 'defined') | selectattr('remapped_rows.failure')
        | length == 0

- name: Find out whether the host needs a reboot, and why
  gpuops.nvidia.gpu_facts:
    gather_subset: ['!all', '!min', reboot]
"""

RETURN = r"""
ansible_facts:
  description: Facts to add to ansible_facts.
  returned: always
  type: dict
  contains:
    gpuops:
      description: The host's facts. It has only the keys of the chosen subsets.
      returned: always
      type: dict
      contains:
        system:
          description: >-
            The operating system, as os-release names it. V(family) is V(debian) or V(redhat), or null for any other.
          type: dict
          sample: {id: ubuntu, version: "24.04", family: debian}
        gpus:
          description: >-
            Every GPU on the PCI bus, in the order of the bus. V(lost) is true for a GPU that fell off the bus.
            V(reason) says why the driver's part of a GPU's facts is missing. V(name) is the name in the PCI table,
            V(product) the driver's. V(pcie.generation_host) is what the GPU and its slot can do together, and
            V(pcie.degraded) whether the link has fewer lanes than it could have. V(bar1_mib) is the size of the window
            through which the PCI bus reaches the GPU's memory. V(clocks) are in MHz; those of applications are null if
            the driver no longer has them. V(recovery_action) is what the driver recommends, in NVML's words, from
            V(NONE) to V(SYSTEM_REBOOT). V(fabric.health) is V(Healthy), V(Unhealthy), V(Limited Capacity) or null, and
            V(fabric.problems) says why. V(retired_pages) exist on GPUs before Ampere, which later ones replace with
            remapped rows. V(mig.pending) is the mode after a reset, V(mig.instances) are the MIG devices that processes
            use, and V(mig.gpu_instances) the GPU instances with their places in memory slices. V(mig.gpu_instances) is
            null for users other than root.
          type: list
          elements: dict
          sample:
            - pci_address: "0000:18:00.0"
              device_id: 10de:2330
              name: GH100 [H100 SXM5 80GB]
              architecture: Hopper
              product: NVIDIA H100 80GB HBM3
              uuid: GPU-4f8d2a10-6c1e-4a53-9b1d-0d6f0a3c1e01
              serial: "1650124014249"
              memory_mib: 81559
              power_w: 71.4
              power_limit_w: 700.0
              clocks: {graphics_max: 1980, memory_max: 2619, graphics_application: 1980, memory_application: 2619}
              persistence_mode: true
              vbios: 96.00.74.00.01
              inforom: G520.0200.00.05
              gsp: 580.95.05
              pcie: {generation: 5, generation_max: 5, generation_host: 5, width: 16, width_max: 16, degraded: false}
              ecc:
                {enabled: true, pending: true, corrected: 0, uncorrected: 0, corrected_total: 2, uncorrected_total: 0}
              remapped_rows: {correctable: 0, uncorrectable: 0, pending: false, failure: false}
              retired_pages: null
              recovery_action: NONE
              mig:
                mode: true
                pending: true
                instances:
                  - index: 0
                    gpu_instance: 2
                    compute_instance: 0
                    memory_mib: 40448
                    profile: 3g.40gb
                    uuid: MIG-5e1b343b-6962-54de-8ad1-5f4e0bfef326
                gpu_instances:
                  - id: 2
                    profile: 3g.40gb
                    start: 4
                    size: 4
                    compute_instances: [{id: 0, profile: 3g.40gb, start: 0, size: 3}]
              nvlink: {links: 18, active: 18, version: 4}
              peer_type: null
              bar1_mib: 131072
              fabric:
                state: Completed
                status: Success
                clique: 0
                cluster_uuid: 00000000-0000-0000-0000-000000000000
                health: null
                problems: []
              numa_node: 0
              iommu_group: 22
              bound_driver: nvidia
              lost: false
              reason: null
        nvswitches:
          description: NVSwitches on the PCI bus. Those of NVLink 5 are represented by the ConnectX-7 that manages them.
          type: list
          elements: dict
          sample: [{pci_address: "0000:07:00.0", device_id: "10de:22a3", name: "GH100 [H100 NVSwitch]"}]
        fabric:
          description: >-
            The kind of NVLink fabric that connects the GPUs. V(nvswitch) needs a fabric manager, V(nvlink5) also NVLSM,
            and V(nvl72) only IMEX. It is V(none) for a guest that was given a part of a board, and for GPUs that are
            connected to each other.
          type: dict
          sample: {kind: nvswitch}
        nics:
          description: >-
            Network adapters with RDMA (InfiniBand, RoCE), and their firmware. V(type) is the adapter's, V(board) the
            identity of its board (PSID).
          type: list
          elements: dict
          sample:
            - name: mlx5_0
              pci_address: "0000:17:00.0"
              type: MT4129
              board: MT_0000000838
              firmware: 28.39.1002
        driver:
          description: >-
            The driver. V(version) is the loaded module's, V(installed_version) that of the module that C(modprobe)
            would load, and V(userspace_version) the libraries'. V(module_installed) says whether there is a module for
            the running kernel (null with a driver container, which has its own). V(matches) says whether the loaded
            module has the version of the libraries. V(signer) is who signed the installed module, and
            V(signer_enrolled) whether the kernel or the firmware trusts that key. V(containerised) is true if a driver
            container has loaded it. V(origin) is V(nvidia) for NVIDIA's repository, V(ubuntu), V(ubuntu-signed) for
            C(linux-modules-nvidia), V(debian), V(distribution) for any other, V(runfile), V(container) or V(unknown).
            V(platform) names NVIDIA's own system, and V(uninstaller) is the command that removes what a C(.run) file
            installed. V(users) are the processes that have its devices open, with the subset V(gpus). V(packages), and
            V(origin) if it follows from them, need the subset V(services).
          type: dict
          sample:
            loaded: true
            version: 580.95.05
            module_type: open
            module_installed: true
            userspace_version: 580.95.05
            matches: true
            installed_version: 580.95.05
            signer: Canonical Ltd. Kernel Module Signing
            signer_enrolled: true
            containerised: false
            origin: ubuntu-signed
            packages: {libnvidia-compute-580-server: 580.95.05}
            platform: null
            uninstaller: null
            users: [{pid: 1207, name: nvidia-persiste, devices: [nvidia0, nvidiactl]}]
        nouveau:
          description:
            - The kernel's own drivers, which conflict with NVIDIA's. nova_core and nova_drm follow nouveau.
            - V(loaded) is whether any of them is loaded, V(blacklisted) whether nouveau is blacklisted.
            - V(in_initramfs) is whether the initramfs has one of them. It is null unless the subset V(initramfs) is
              named.
          type: dict
          sample:
            loaded: false
            blacklisted: true
            in_initramfs: null
            files: [/etc/modprobe.d/zz-gpuops.conf]
            modules:
              nouveau: {loaded: false, blacklisted: true}
              nova_core: {loaded: false, blacklisted: true}
              nova_drm: {loaded: false, blacklisted: true}
        kernel:
          description:
            - Kernel, arguments and boot loader. V(next_boot) is the version that the next boot uses,
              V(cmdline_configured) are its arguments, and V(cmdline_source) is the file that they come from. They are
              null if they are unknown.
            - V(cmdline_fallback) are the arguments of a second try, which Ubuntu's cloud images make if a boot without
              an initramfs fails. V(cmdline_defaults) are the arguments in GRUB's defaults, from which the boot loader's
              file is generated.
            - V(changed_since_boot) is false if no file of the boot loader has changed since the host booted.
          type: dict
          sample:
            running: 6.8.0-87-generic
            installed: [6.8.0-87-generic, 6.8.0-88-generic]
            newest_installed: 6.8.0-88-generic
            next_boot: 6.8.0-88-generic
            cmdline: [BOOT_IMAGE=/vmlinuz-6.8.0-87-generic, "root=/dev/sda2", ro]
            cmdline_configured: ["root=/dev/sda2", ro, iommu=pt]
            cmdline_fallback: null
            cmdline_source: /boot/grub/grub.cfg
            cmdline_defaults: [iommu=pt]
            changed_since_boot: true
            headers: true
            bootloader: grub
        secure_boot:
          description: Whether secure boot is on, and the kernel's lockdown.
          type: dict
          sample: {enabled: false, lockdown: none}
        iommu:
          description: >-
            Whether an IOMMU is on, its mode, and which devices share a group with a GPU. V(firmware_tables) are the
            ACPI tables in which an x86 firmware offers an IOMMU, C(DMAR) for Intel and C(IVRS) for AMD.
          type: dict
          sample:
            enabled: true
            mode: passthrough
            groups: 84
            gpu_groups: [{gpu: "0000:18:00.0", group: 22, shared_with: []}]
            firmware_tables: [DMAR]
        passthrough:
          description:
            - What handing the GPUs to virtual machines depends on. V(guest) is whether the host is a virtual machine
              itself, and V(kvm) whether it can start some.
            - V(modules) says of each kernel module whether it is V(loaded), V(builtin), V(available) or V(missing).
            - V(devices) are the GPUs and NVSwitches, their other functions, and everything in the same IOMMU groups.
              V(gpu) is the GPU that a function belongs to, V(vfio_driver) the vfio module that fits best.
            - V(vgpus) says what each GPU offers. V(framework) is V(mdev) for mediated devices, V(vendor) for virtual
              functions with files of NVIDIA's own, or null while no vGPU manager has loaded its driver.
          type: dict
          sample:
            guest: false
            kvm: true
            modules:
              kvm: loaded
              vfio_pci: loaded
              vfio_iommu_type1: loaded
              nvgrace_gpu_vfio_pci: available
              mdev: available
              nvidia_vgpu_vfio: missing
            devices:
              - pci_address: "0000:18:00.0"
                device_id: 10de:2330
                kind: gpu
                iommu_group: 22
                bound_driver: vfio-pci
                driver_override: vfio-pci
                vfio_driver: vfio_pci
                gpu: "0000:18:00.0"
            vgpus:
              - {gpu: "0000:18:00.0", sriov_totalvfs: 16, sriov_numvfs: 0, framework: null, types: [], vgpus: 0}
        acs:
          description: Whether access control services are on for any PCIe bridge, and the control register of each
            bridge that has them. Only root can read them.
          type: dict
          sample: {enabled: false, bridges: [{address: "0000:17:00.0", control: "0000"}]}
        services:
          description: NVIDIA's services. V(matches_driver) says whether a service has the version of the loaded driver.
            NVLSM has its own versions.
          type: dict
          sample:
            fabric_manager:
              {package: nvidia-fabricmanager, version: 580.95.05, active: true, enabled: true, matches_driver: true}
            nvlsm: {package: null, version: null, active: false, enabled: false, matches_driver: null}
            imex: {package: null, version: null, active: false, enabled: false, matches_driver: null}
            persistenced: {package: null, version: null, active: true, enabled: true, matches_driver: null}
        runtimes:
          description:
            - Container runtimes, each with the configuration file that its Kubernetes distribution uses.
            - C(nvidia_runtime) says whether the handler C(nvidia) is in the section that the runtime reads, and its
              program C(nvidia_program) can be run. C(cri) is false for a containerd whose C(disabled_plugins) has CRI.
          type: list
          elements: dict
          sample:
            - name: containerd
              distribution: null
              config: /etc/containerd/config.toml
              cri: true
              nvidia_runtime: true
              nvidia_program: /usr/bin/nvidia-container-runtime
              default_runtime: runc
              active: true
              version: 2.1.4
        xid:
          description:
            - The newest 100 errors of GPUs (V(xid)) and of NVSwitches (V(sxid)) in the kernel log since the boot, in
              the order of time.
            - V(meaning) and V(action) are those of NVIDIA's Xid catalog. V(severity) is V(fatal), V(nonfatal) or
              V(correctable), for errors of NVSwitches and of NVLink 5. V(recovery_action) is what the driver recommends
              in an Xid 154. V(gpu_instance) and V(compute_instance) are those of a GPU with MIG.
          type: list
          elements: dict
          sample:
            - time: "2026-11-20T04:12:09+0000"
              kind: xid
              gpu: "0000:18:00.0"
              gpu_instance: null
              compute_instance: null
              code: 79
              severity: null
              meaning: GPU has fallen off the bus
              action: RESTART_BM
              recovery_action: null
              message: pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
        hugepages:
          description: Huge pages of every size, and when the kernel uses transparent huge pages.
          type: dict
          sample: {sizes: [{size_kib: 2048, total: 0, free: 0}], transparent: madvise}
        numa:
          description: NUMA nodes, and whether the kernel moves memory between the nodes.
          type: dict
          sample: {nodes: [{id: 0, cpus: 0-55, memory_mib: 1031784}], balancing: true}
        node:
          description:
            - What identifies the host in a Kubernetes cluster. The kubelet reports the same about its node.
            - C(kubelet.present) is whether a kubelet belongs to the host, C(kubelet.active) whether it runs, and
              C(kubelet.by) what says so.
          type: dict
          sample:
            machine_id: b08dfa6083e7567a1921a715000001fb
            system_uuid: 4C4C4544-0042-3510-8054-B4C04F4E3532
            boot_id: 0c5d8b1e-2f55-4f0e-9d58-0f5bb6ee2a11
            hostname: gpu-0001
            addresses: [10.20.3.7, "fd00::7"]
            kubelet: {present: true, active: true, by: the process kubelet}
        files:
          description: >-
            The texts of files from which the roles of this collection tell what they have set up. V(change) is how far
            a change by the role C(host_change) has come, V(masked_units) are the units that C(host_driver) has masked,
            V(persistenced_needs) is the drop-in with which the unit of the persistence daemon turns persistence mode on
            (empty if it does so itself), V(persistenced_dropin) the one that C(host_driver) has written, and
            V(imex_nodes) are the trays of the IMEX domain. A file that does not exist, or that only root can read, is
            null. V(restarts) are the services that have not been restarted since such a file has changed.
          type: dict
          sample:
            change: null
            masked_units: null
            persistenced_needs: null
            persistenced_dropin: null
            imex_nodes: "10.0.0.1\n10.0.0.2\n"
            restarts: []
        reboot:
          description:
            - Whether the host needs a reboot, because the next boot would run something else than the present one.
            - V(notes) are differences that existed when this boot started, so that a reboot would not remove them.
          type: dict
          sample: {required: true, reasons: ["The kernel runs without the configured arguments iommu=pt"], notes: []}
        sources:
          description: The V(source) of every fact or field, or the V(reason) why it is null.
          type: dict
          sample:
            gpus.uuid: {source: nvml, reason: null}
            gpus.fabric: {source: null, reason: "NVML: Not Supported"}
"""

import typing as t

from ansible_collections.gpuops.nvidia.plugins.module_utils._argspec import ArgumentSpec
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts import gather
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.host import Host
from ansible_collections.gpuops.nvidia.plugins.module_utils._module import run

SPEC = ArgumentSpec(
    {
        "gather_subset": {"type": "list", "elements": "str", "default": ["all"]},
        "gather_timeout": {"type": "int", "default": 10},
        "driver_root": {"type": "path", "default": "/run/nvidia/driver"},
    },
)


def main() -> t.NoReturn:
    run(
        SPEC,
        lambda module: {
            "ansible_facts": {
                "gpuops": gather.gather(
                    Host(timeout_s=module.params["gather_timeout"]),
                    module.params["gather_subset"],
                    module.params["gather_timeout"],
                    module.params["driver_root"],
                )
            }
        },
    )


if __name__ == "__main__":
    main()
