#!/bin/sh
# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# common.sh RELEASE: install what every flavour has: the simulated machine, the commands that talk to its kernel, and a
# kernel of this release.
set -eu
release=$1
stand_ins=/usr/local/lib/stand-ins
simulated=/var/lib/machine

chmod 755 $stand_ins/grub-probe $stand_ins/grubby $stand_ins/module $stand_ins/login $stand_ins/bin/*
install -m 755 $stand_ins/bin/* /usr/local/sbin/
dpkg-divert --quiet --local --rename --add /usr/sbin/grub-probe
install -m 755 $stand_ins/grub-probe /usr/sbin/grub-probe

# The simulated kernel files. They must exist before the first boot fills them.
for folder in proc/driver/nvidia sys/bus/pci/devices sys/bus/pci/drivers sys/class/iommu sys/kernel/iommu_groups \
  sys/kernel/mm/hugepages sys/module recorded; do
  mkdir -p $simulated/$folder
done
touch $simulated/proc/cmdline $simulated/proc/modules
cat /proc/cpuinfo > $simulated/proc/cpuinfo
# Some files of /proc/sys cannot be read.
cp -r --no-preserve=mode,ownership /proc/sys $simulated/recorded/sys 2> /dev/null || true
find $simulated/recorded/sys -name 'random' -prune -o -type f -exec chmod 644 {} +
cp -r $simulated/recorded/sys $simulated/proc/sys
rm -rf $simulated/recorded/sys/kernel/random
for size in 2048kB 1048576kB; do
  mkdir -p $simulated/sys/kernel/mm/hugepages/hugepages-$size
  for name in nr_hugepages free_hugepages resv_hugepages surplus_hugepages nr_overcommit_hugepages; do
    echo 0 > $simulated/sys/kernel/mm/hugepages/hugepages-$size/$name
  done
  ln -sf nr_hugepages $simulated/sys/kernel/mm/hugepages/hugepages-$size/free_hugepages
done
ln -sf /proc/sys/vm/nr_hugepages $simulated/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages

# Kernel modules without code. A container cannot choose its kernel, so the release is that of the machine's kernel.
modules=/lib/modules/$release/kernel/drivers
module() { $stand_ins/module "$@"; }
module "$modules/gpu/drm/drm.ko"
module "$modules/gpu/drm/nouveau/nouveau.ko" depends=drm "alias=pci:v000010DEd*sv*sd*bc03sc*i*" \
  "alias=pci:v000012D2d*sv*sd*bc03sc*i*"
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
for symbol in RD_GZIP RD_ZSTD MODULES HUGETLBFS NUMA_BALANCING; do echo CONFIG_$symbol=y; done > "/boot/config-$release"

# systemd-sysctl checks only /proc/sys itself, which is read-only, unlike the simulated folders in it.
mkdir -p /etc/systemd/system/systemd-sysctl.service.d
printf '[Unit]\nConditionPathIsReadWrite=\n' \
  > /etc/systemd/system/systemd-sysctl.service.d/machine.conf

# The file that stand-ins/login waits for.
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

systemctl mask systemd-udevd.service systemd-udev-trigger.service apt-daily.timer apt-daily-upgrade.timer \
  e2scrub_all.timer e2scrub_reap.service man-db.timer fstrim.timer getty.target 2> /dev/null
