# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# FOR INTERNAL COLLECTION USE ONLY: no part of this file is a public interface.

"""Which names belong to secrets, and which exact names have values that may be shown. Pure.

A name is taken apart into its words, at separators and where its case changes. Whether one of them stands for a secret
is asked first. Only then the lists of exact names count, in which no entry is the beginning of a name.
"""

from __future__ import annotations

import functools
import re


def listed(text: str) -> frozenset[str]:
    """Return the words of a text: lists of hundreds of names are read more easily without quotes."""
    return frozenset(text.split())


PASSWORDS = listed("pw pwd passwd password passwords passphrase passphrases passcode psk sshpw rootpw userpassword")
"""Words that stand for a password wherever they are, in prose too."""

_WORDS = PASSWORDS | listed(
    "pass pat pats auth oauth token tokens secret secrets credential credentials cred creds cookie cookies jwt otp "
    "licence licences license licenses lic apikey apikeys dockercfg dockerconfigjson htpasswd"
)
"""Words of a name whose value is secret."""

_GLUED = re.compile(
    r"password|passwd|passphrase|(?:pw|pwd|auth|secret|token|credentials?|licen[cs]e"
    r"|(?:api|ssh|private|access|secret|encryption|signing|master|host)key)s?$"
)
"""What shows a secret in a word that is written together, such as ``registrypassword`` and ``privatekey``."""

_KEYS = frozenset({"key", "keys"})
"""Words for a secret in a name of several words. Alone, they are the name of a taint, a label or an entry."""

_ABOUT = listed("name names namespace ref refs file path dir type status seconds")
"""Last words of names that say something about a secret: where it is, how it is called, for how long it is valid."""

_HARMLESS = listed(
    "secrets pull_secret pull_secrets image_pull_secret image_pull_secrets existing_secret topology_key config_map_key"
    " match_label_keys mismatch_label_keys label_keys public_key public_keys sig_key key_size key_id key_usage"
    " max_tokens pass_device_specs pass_through accept_license accept_eula_license automount_service_account_token"
    " operator_pull_secrets secret_env mok_keys secure_boot_keys enrolled_keys lic_info"
)
"""Names with such a word whose value is none, in lower case with underscores."""

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@functools.lru_cache(maxsize=8192)
def words(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case: those of ``HF_hubPw`` are hf, hub and pw."""
    return tuple(part.lower() for part in _PART.findall(name))


@functools.lru_cache(maxsize=8192)
def is_secret(name: str) -> bool:
    """Return whether a value under this name is a secret."""
    found = words(name)
    if not found or "_".join(found) in _HARMLESS or (len(found) > 1 and found[-1] in _ABOUT):
        return False
    has_key = len(found) > 1 and not _KEYS.isdisjoint(found)
    return has_key or not _WORDS.isdisjoint(found) or any(map(_GLUED.search, found))


def is_password(name: str) -> bool:
    """Return whether a name has a word that stands for a password in prose, too."""
    return any(word in PASSWORDS or "passw" in word for word in words(name))


PROXIES = listed("HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy")
"""Environment variables with an address of a customer's network."""

_VARIABLES = PROXIES | listed("""
    NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES NVIDIA_REQUIRE_CUDA NVIDIA_DISABLE_REQUIRE
    NVIDIA_MIG_CONFIG_DEVICES NVIDIA_MIG_MONITOR_DEVICES NVIDIA_DRIVER_ROOT NVIDIA_DEV_ROOT NVIDIA_CTK_PATH
    NVIDIA_CDI_HOOK_PATH NVIDIA_RUNTIME_SET_AS_DEFAULT NVIDIA_CONTAINER_RUNTIME_MODE NVIDIA_CONTAINER_RUNTIME_MODES_CDI
    NVIDIA_CONTAINER_RUNTIME_MODES_CDI_DEFAULT_KIND NVIDIA_CONTAINER_TOOLKIT_VERSION NVIDIA_VALIDATOR_IMAGE
    NVIDIA_FABRIC_MANAGER_MODE NVIDIA_MODULE_PARAMETERS NVIDIADRIVER
    CUDA_VISIBLE_DEVICES CUDA_VERSION CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY CUDA_MPS_ACTIVE_THREAD_PERCENTAGE
    CUDA_DEVICE_ORDER CUDA_CACHE_PATH CUDA_VALIDATOR_IMAGE
    DCGM_EXPORTER_INTERVAL DCGM_EXPORTER_LISTEN DCGM_EXPORTER_KUBERNETES DCGM_EXPORTER_COLLECTORS
    DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE DCGM_EXPORTER_CONFIGMAP_DATA DCGM_EXPORTER_ENABLE_DCGM_LOG
    DCGM_EXPORTER_DEBUG DCGM_EXPORTER_DEVICES_STR DCGM_HPC_JOB_MAPPING_DIR DCGM_REMOTE_HOSTENGINE_INFO
    DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID KUBERNETES_ENABLE_DRA
    MIG_STRATEGY MIG_PARTED_CONFIG_FILE MIG_PARTED_DEFAULT_CONFIG MPS_ROOT CONTAINER_DRIVER_ROOT CONFIG_FILE
    CONFIG_FILE_SRCDIR CONFIG_FILE_DST DEFAULT_CONFIG DEFAULT_GPU_CLIENTS FALLBACK_STRATEGIES SEND_SIGNAL SIGNAL
    PROCESS_TO_SIGNAL ONESHOT GPU_CLIENTS_FILE HOST_ROOT HOST_ROOT_MOUNT HOST_MIG_MANAGER_STATE_FILE
    HOST_NVIDIA_DIR HOST_KUBELET_SYSTEMD_SERVICE WITH_REBOOT WITH_SHUTDOWN_HOST_GPU_CLIENTS CDI_ENABLED
    CDI_FEATURE_FLAGS CDI_KIND CDI_DRIVER_ROOT CDI_ROOT
    DRIVER_ROOT DRIVER_ROOT_CTR_PATH DEV_ROOT DEV_ROOT_CTR_PATH DRIVER_CONFIG_DIGEST DRIVER_MANAGER_IMAGE DRIVER_TYPE
    DRIVER_VERSION DRIVER_BRANCH DRIVER_INSTALL_DIR DRIVER_INSTALL_DIR_CTR_PATH DRIVER_CAPABILITIES
    KERNEL_MODULE_TYPE KERNEL_VERSION KERNEL_MODULE_CONFIG KERNEL_MODULE_PARAMS OPEN_KERNEL_MODULES_ENABLED
    FORCE_REINSTALL RHEL_VERSION RHCOS_IMAGE_MISSING OPENSHIFT_VERSION OSTREE_VERSION OS_TAG VERSION_ID
    GPU_DIRECT_RDMA_ENABLED GPUDIRECT_RDMA_ENABLED USE_HOST_MOFED MOFED_ENABLED GDS_ENABLED GDRCOPY_ENABLED
    IMEX_MODE IMEX_NODES_CONFIG_FILE FABRIC_MANAGER_FABRIC_MODE BIND_NVSWITCHES NVSWITCH_ALIAS P2P_STATUS
    RUNTIME RUNTIME_CONFIG RUNTIME_SOCKET RUNTIME_DIR RUNTIME_DROP_IN_CONFIG RUNTIME_DROP_IN_CONFIG_HOST_PATH
    RUNTIME_CONFIG_SOURCE RUNTIME_EXECUTABLE_PATH RUNTIME_ARGS
    CONTAINERD_CONFIG CONTAINERD_SOCKET CONTAINERD_RUNTIME_CLASS CONTAINERD_SET_AS_DEFAULT
    CONTAINERD_RESTART_MODE CONTAINERD_DROP_IN_CONFIG DOCKER_CONFIG DOCKER_SOCKET DOCKER_RUNTIME_NAME
    DOCKER_SET_AS_DEFAULT CRIO_CONFIG CRIO_CONFIG_MODE CRIO_HOOKS_DIR CRIO_SET_AS_DEFAULT CRIO_DROP_IN_CONFIG
    TOOLKIT_PID_FILE TOOLKIT_ROOT NO_DAEMON ROOT NVIDIA_CONTAINER_CLI_DEBUG ENABLE_CDI
    DEVICE_LIST_STRATEGY DEVICE_ID_STRATEGY FAIL_ON_INIT_ERROR PASS_DEVICE_SPECS NVIDIA_IMEX_CHANNELS GFD_ONESHOT
    GFD_FAIL_ON_INIT_ERROR GFD_MIG_STRATEGY GFD_NO_TIMESTAMP GFD_SLEEP_INTERVAL GFD_OUTPUT_FILE
    GFD_MACHINE_TYPE_FILE DP_DISABLE_HEALTHCHECKS DP_ENABLE_HEALTHCHECKS
    OPERATOR_NAMESPACE OPERATOR_VERSION WATCH_NAMESPACE POD_NAMESPACE POD_NAME POD_UID POD_IP NODE_NAME NAMESPACE
    NODE_IP HOST_IP HOSTNAME COMPONENT VALIDATOR_IMAGE VALIDATOR_IMAGE_PULL_POLICY VALIDATOR_RUNTIME_CLASS
    CUDA_WORKLOAD_IMAGE WITH_WAIT WITH_WORKLOAD DISABLE_DEV_CHAR_SYMLINK_CREATION DEFAULT_GPU_WORKLOAD_CONFIG
    SANDBOX_ENABLED PLUGIN_WITH_WORKLOAD CLEANUP_ALL SLEEP_INTERVAL_SECONDS IS_HOST_DRIVER FEATURE_GATES
    ENABLE_GPU_POD_EVICTION ENABLE_AUTO_DRAIN DRAIN_USE_FORCE DRAIN_TIMEOUT_SECONDS DRAIN_DELETE_EMPTYDIR_DATA
    DRAIN_POD_SELECTOR_LABEL UNLOAD_DRIVER DELAY_BEFORE_VF_CREATION PCI_RESOURCE_NAME LD_LIBRARY_PATH PATH HOME TZ LANG
    LC_ALL TERM NO_PROXY GODEBUG GOMAXPROCS GOMEMLIMIT NCCL_DEBUG NCCL_IB_DISABLE NCCL_SOCKET_IFNAME UID GID
    """)
"""Environment variables of the stack whose values the diagnosis reads, or that say nothing about a customer."""

_ARGUMENTS = listed("""
    leader-elect zap-log-level zap-time-encoding zap-devel zap-encoder metrics-bind-address health-probe-bind-address
    driver-root dev-root container-driver-root mig-strategy fail-on-init-error pass-device-specs nvidia-driver-root
    device-list-strategy device-id-strategy config-file resource-allocation-strategy no-timestamp sleep-interval
    output-file oneshot machine-type-file use-node-feature-api runtime runtime-class runtime-config config socket
    restart-mode set-as-default no-daemon toolkit-install-dir component with-wait host-root cdi-enabled
    collectors collect-interval address listen-address port web-listen-address kubernetes v v1 verbosity logtostderr
    namespace node-name server crd-controller feature-gates grpc-health port-metrics metrics enable-taints
    kubelet-config-uri no-publish sysfs enable-nodefeature-api default-gpu-workload-config rdma-enabled
    kernel-module-type uninstall-driver c ec xc lc ce exc name image version selector for timeout
    """)
"""Arguments of the stack's programs whose values may be shown, without the hyphens before them. A shell's script after
``-c`` is read as text."""

_KERNEL = listed("""
    BOOT_IMAGE root rootfstype rootflags rootdelay rootwait initrd resume resume_offset console earlycon earlyprintk
    loglevel panic panic_on_oops panic_on_warn crashkernel nmi_watchdog nowatchdog watchdog_thresh hung_task_panic
    softlockup_panic iommu iommu.passthrough iommu.strict intel_iommu amd_iommu iommu.forcedac pci pcie_aspm pcie_acs
    pcie_ports pcie_port_pm pci_acs config_acs hugepages hugepagesz default_hugepagesz transparent_hugepage
    numa_balancing numa mem memmap movable_node cma swiotlb isolcpus nohz nohz_full rcu_nocbs rcu_nocb_poll skew_tick
    tsc clocksource idle processor.max_cstate intel_idle.max_cstate intel_pstate amd_pstate cpufreq.default_governor
    cpuidle.off mitigations spectre_v2 spec_store_bypass_disable kaslr nokaslr tsx mce apparmor selinux enforcing
    security lsm audit audit_backlog_limit init systemd.unified_cgroup_hierarchy systemd.unit systemd.show_status
    systemd.legacy_systemd_cgroup_controller systemd.mask cgroup_enable cgroup_disable cgroup_no_v1 swapaccount
    psi net.ifnames biosdevname ipv6.disable ip nvme_core.io_timeout nvme_core.multipath
    nvme_core.default_ps_max_latency_us
    modprobe.blacklist module_blacklist rd.driver.blacklist rd.driver.pre rd.blacklist initcall_blacklist nomodeset
    nouveau.modeset nouveau.blacklist nouveau.config nvidia-drm.modeset nvidia-drm.fbdev nvidia_drm.modeset
    nvidia_drm.fbdev nvidia.NVreg_OpenRmEnableUnsupportedGpus nvidia.NVreg_EnableGpuFirmware
    nvidia.NVreg_PreserveVideoMemoryAllocations nvidia.NVreg_EnableStreamMemOPs
    nvidia.NVreg_RestrictProfilingToAdminUsers
    nvidia.NVreg_DynamicPowerManagement nvidia.NVreg_EnablePCIERelaxedOrderingMode nvidia.NVreg_CoherentGPUMemoryMode
    nvidia.NVreg_NvLinkDisable nvidia.NVreg_UsePageAttributeTable nvidia.NVreg_RegistryDwords
    vfio-pci.ids vfio_pci.ids vfio_iommu_type1.allow_unsafe_interrupts kvm.ignore_msrs efi acpi acpi_enforce_resources
    acpi_osi lapic video vga fbcon splash plymouth.enable quiet rhgb ro rw vt.handoff rd.lvm.lv rd.md.uuid rd.luks.uuid
    rd.shell rd.neednet rd.debug rd.break ostree ignition.platform.id ignition.firstboot coreos.oem.id overlayroot
    boot ds dyndbg nosmt smt nr_cpus maxcpus possible_cpus fips autofs ima ima_policy ima_appraise lockdown
    module.sig_enforce debugfs random.trust_cpu printk.devkmsg log_buf_len ftrace workqueue.power_efficient sched_policy
    stack hpet noapic nox2apic x2apic nx vsyscall page_alloc.shuffle init_on_alloc init_on_free slub_debug kpti pti
    snd_hda_intel.dmic_detect i915.modeset ast.modeset mgag200.modeset usbcore.autosuspend libata.force
    """)
"""Arguments of the kernel whose values may be shown. Netboot, installers and iSCSI have passwords among theirs."""


def is_plain_variable(name: str) -> bool:
    """Return whether the value of an environment variable may be shown."""
    return not is_secret(name) and name in _VARIABLES


def is_plain_argument(name: str) -> bool:
    """Return whether the value of a program's or of the kernel's argument may be shown."""
    bare = name.lstrip("-")
    return not is_secret(bare) and (bare in _ARGUMENTS if name.startswith("-") else bare in _KERNEL)


# Labels and annotations

_DOMAINS = listed("""
    nvidia.com gpu.nvidia.com dgxc.nvidia.com k8saas.nvidia.com maintenance.nvidia.com skyhook.nvidia.com
    resource.nvidia.com mofed.nvidia.com network.nvidia.com gpuops.nvidia gpuops.nvidia.com
    kubernetes.io k8s.io helm.sh meta.helm.sh olm.owner app.kubernetes.io node.kubernetes.io beta.kubernetes.io
    node-role.kubernetes.io feature.node.kubernetes.io nfd.node.kubernetes.io node-restriction.kubernetes.io
    node.alpha.kubernetes.io volumes.kubernetes.io topology.kubernetes.io failure-domain.beta.kubernetes.io
    pod-security.kubernetes.io scheduler.alpha.kubernetes.io kubeadm.alpha.kubernetes.io kubectl.kubernetes.io
    deployment.kubernetes.io deprecated.daemonset.template.generation batch.kubernetes.io apps.kubernetes.io
    cluster-autoscaler.kubernetes.io resource.kubernetes.io openshift.io node.openshift.io
    machineconfiguration.openshift.io security.openshift.io operators.coreos.com weave.works medik8s.io karpenter.sh
    kwok.x-k8s.io cloud.google.com node.k8s.amazonaws.com eks.amazonaws.com kubernetes.azure.com kueue.x-k8s.io
    argocd.argoproj.io helm.toolkit.fluxcd.io kustomize.toolkit.fluxcd.io
    """)
"""The domains of labels and annotations that Kubernetes, NVIDIA, and the maintainers of nodes that we know set."""

_BARE = listed("""
    app component name release chart heritage controller-revision-hash pod-template-hash pod-template-generation
    k8s-app tier openshift.io olm.owner olm.owner.kind olm.owner.namespace deprecated.daemonset.template.generation
    control-plane quarantineHealthEvent quarantineHealthEventIsCordoned quarantineHealthEventCordonPreExisting
    quarantineHealthEventAppliedTaints quarantineHealthEventAppliedCordon amd-gpu-driver-upgrade amd-gpu-unhealthy
    """)
"""Labels and annotations without a domain whose meaning is known."""


@functools.lru_cache(maxsize=8192)
def is_known_label(key: str) -> bool:
    """Return whether a label or an annotation belongs to Kubernetes, NVIDIA or a known maintainer of nodes."""
    domain, separator, dummy = key.partition("/")
    return domain in _DOMAINS if separator else key in _BARE


def last_part(key: str) -> str:
    """Return a key without the domain before it, which may have any words."""
    return key.rpartition("/")[2]
