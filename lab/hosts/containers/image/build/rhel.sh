#!/bin/sh
# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# rhel.sh RELEASE: the EL 9 lookalike, with dnf, rpm, dracut and boot loader entries on Debian's user space. It tests
# the branches for EL, not EL itself.
set -eu
release=$1
rm -rf /var/lib/apt/lists/* /etc/apt/sources.list /etc/default/grub.d
rm -f /etc/os-release /etc/debian_version
cat > /etc/os-release << 'END'
NAME="Rocky Linux"
VERSION="9.4 (Blue Onyx)"
ID="rocky"
ID_LIKE="rhel centos fedora"
VERSION_ID="9.4"
PLATFORM_ID="platform:el9"
PRETTY_NAME="Rocky Linux 9.4 (Blue Onyx)"
ANSI_COLOR="0;32"
CPE_NAME="cpe:/o:rocky:rocky:9::baseos"
ROCKY_SUPPORT_PRODUCT="Rocky-Linux-9"
ROCKY_SUPPORT_PRODUCT_VERSION="9.4"
END
echo "Rocky Linux release 9.4 (Blue Onyx)" | tee /etc/redhat-release > /etc/rocky-release
ln -sf redhat-release /etc/system-release

# EL's dracut builds an image for the host at hand, with its graphics drivers and /etc/modprobe.d, and names it
# initramfs-*.img. To save time, this image has no user space and is hardly compressed.
mkdir -p /etc/yum.repos.d /usr/lib/dracut/dracut.conf.d
cat > /usr/lib/dracut/dracut.conf.d/01-el.conf << 'END'
hostonly="yes"
dracutmodules="base kernel-modules"
add_drivers+=" nouveau "
compress="gzip -1"
END
sed -i 's,/boot/initrd.img-${\(kernel\|KERNEL_VERSION\)},/boot/initramfs-${\1}.img,' /usr/bin/dracut /usr/bin/lsinitrd
dracut --quiet --force --kver "$release"

install -m 755 /usr/local/lib/stand-ins/grubby /usr/sbin/grubby
machine=$(cat /proc/sys/kernel/random/uuid | tr -d -)
echo "$machine" > /etc/machine-id
mkdir -p /boot/loader/entries /boot/grub2 /etc/default
cat > "/boot/loader/entries/$machine-$release.conf" << END
title Rocky Linux ($release) 9.4 (Blue Onyx)
version $release
linux /vmlinuz-$release
initrd /initramfs-$release.img
options root=/dev/mapper/rl-root ro crashkernel=1G-4G:192M,4G-64G:256M,64G-:512M rd.lvm.lv=rl/root
grub_users \$grub_users
grub_arg --unrestricted
grub_class rocky
END
cat > /etc/default/grub << 'END'
GRUB_TIMEOUT=5
GRUB_DISTRIBUTOR="$(sed 's, release .*$,,g' /etc/system-release)"
GRUB_DEFAULT=saved
GRUB_TERMINAL_OUTPUT="console"
GRUB_CMDLINE_LINUX="crashkernel=1G-4G:192M,4G-64G:256M,64G-:512M rd.lvm.lv=rl/root"
GRUB_DISABLE_RECOVERY="true"
GRUB_ENABLE_BLSCFG=true
END
/usr/local/lib/packages/make.py rhel "$release"
cat > /etc/yum.repos.d/distribution.repo << 'END'
[distribution]
name=Distribution
baseurl=file:///usr/local/share/distribution
gpgcheck=0
END
cat > /etc/yum.repos.d/epel.repo << 'END'
[epel]
name=Extra Packages for Enterprise Linux 9
baseurl=file:///usr/local/share/epel
gpgcheck=0
END
echo 9 > /etc/dnf/vars/releasever

# Remove what EL does not have.
rm -f /usr/lib/python3/dist-packages/dnf-plugins/local.py /etc/dnf/plugins/local.conf
rm -f /usr/bin/apt* /usr/bin/dpkg* /usr/sbin/update-grub
