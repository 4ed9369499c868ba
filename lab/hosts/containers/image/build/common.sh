#!/bin/sh
# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# What every flavour has: the simulated machine, the commands that talk to its kernel, and a kernel to boot. Argument: the kernel's release.
set -eu
release=$1
stand_ins=/usr/local/lib/stand-ins
simulated=/var/lib/machine

chmod 755 $stand_ins/grub-probe $stand_ins/grubby $stand_ins/module $stand_ins/login $stand_ins/bin/*
install -m 755 $stand_ins/bin/* /usr/local/sbin/
dpkg-divert --quiet --local --rename --add /usr/sbin/grub-probe
install -m 755 $stand_ins/grub-probe /usr/sbin/grub-probe

# The kernel files that are laid over the machine's own. They must be there before the first boot fills them.
mkdir -p $simulated/proc/driver/nvidia $simulated/sys/bus/pci/devices $simulated/sys/bus/pci/drivers $simulated/sys/class/iommu \
  $simulated/sys/kernel/iommu_groups $simulated/sys/module $simulated/sys/kernel/mm/hugepages $simulated/recorded
touch $simulated/proc/cmdline $simulated/proc/modules
cat /proc/cpuinfo > $simulated/proc/cpuinfo
cp -r --no-preserve=mode,ownership /proc/sys $simulated/recorded/sys 2> /dev/null || true # some can only be written
find $simulated/recorded/sys -name 'random' -prune -o -type f -exec chmod 644 {} +
cp -r $simulated/recorded/sys $simulated/proc/sys
rm -rf $simulated/recorded/sys/kernel/random
for size in 2048kB 1048576kB; do
  mkdir -p $simulated/sys/kernel/mm/hugepages/hugepages-$size
  for name in nr_hugepages free_hugepages resv_hugepages surplus_hugepages nr_overcommit_hugepages; do
    echo 0 > $simulated/sys/kernel/mm/hugepages/hugepages-$size/$name
  done
done
for size in 2048kB 1048576kB; do ln -sf nr_hugepages $simulated/sys/kernel/mm/hugepages/hugepages-$size/free_hugepages; done
ln -sf /proc/sys/vm/nr_hugepages $simulated/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages

# A kernel package of modules without code; the release is the running kernel's, which a container cannot choose.
modules=/lib/modules/$release/kernel/drivers
module() { $stand_ins/module "$@"; }
module "$modules/gpu/drm/drm.ko"
module "$modules/gpu/drm/nouveau/nouveau.ko" depends=drm "alias=pci:v000010DEd*sv*sd*bc03sc*i*" "alias=pci:v000012D2d*sv*sd*bc03sc*i*"
module "$modules/vfio/vfio.ko"
module "$modules/vfio/vfio_iommu_type1.ko" depends=vfio
module "$modules/vfio/pci/vfio-pci-core.ko" depends=vfio
module "$modules/vfio/pci/vfio-pci.ko" depends=vfio-pci-core
module "$modules/infiniband/core/ib_core.ko"
module "$modules/infiniband/core/ib_umad.ko" depends=ib_core
module "$modules/block/virtio_blk.ko"
module "/lib/modules/$release/kernel/net/bridge/br_netfilter.ko"
module "/lib/modules/$release/kernel/fs/overlayfs/overlay.ko"
: > "/lib/modules/$release/modules.builtin"
: > "/lib/modules/$release/modules.order"
: > "/lib/modules/$release/modules.builtin.modinfo"
depmod "$release"
printf 'stand-in for a kernel\n' > "/boot/vmlinuz-$release"
for symbol in CONFIG_RD_GZIP=y CONFIG_RD_ZSTD=y CONFIG_MODULES=y CONFIG_HUGETLBFS=y CONFIG_NUMA_BALANCING=y; do echo $symbol; done > "/boot/config-$release"

# systemd-sysctl only looks at /proc/sys, which is read-only; what is below is the simulated machine's.
mkdir -p /etc/systemd/system/systemd-sysctl.service.d
printf '[Unit]\nConditionPathIsReadWrite=\n' > /etc/systemd/system/systemd-sysctl.service.d/machine.conf

# When one could log in: see stand-ins/login.
cat > /etc/systemd/system/machine-up.service << 'END'
[Unit]
After=systemd-user-sessions.service basic.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/touch /run/machine-up

[Install]
WantedBy=multi-user.target
END
systemctl --quiet enable machine-up.service

systemctl mask systemd-udevd.service systemd-udev-trigger.service apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer \
  e2scrub_reap.service man-db.timer fstrim.timer getty.target 2> /dev/null
