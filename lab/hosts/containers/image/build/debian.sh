#!/bin/sh
# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# debian.sh RELEASE FLAVOUR: the Debian flavour, with the real GRUB and initramfs-tools.
set -eu
release=$1 flavour=$2
mkdir -p /boot/grub /etc/default/grub.d
cat > /etc/default/grub << 'END'
GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_DISTRIBUTOR=`lsb_release -i -s 2> /dev/null || echo Debian`
GRUB_CMDLINE_LINUX_DEFAULT="quiet"
GRUB_CMDLINE_LINUX="console=ttyS0,115200"
GRUB_DISABLE_OS_PROBER=true
END
update-initramfs -c -k "$release"
update-grub

# Roles configure the repository in /usr/local/share/repository. A bare host already has the distribution's.
mkdir -p /usr/local/share/distribution
cd /usr/local/share/distribution
apt-get --quiet update
apt-get --quiet download python3-debian python3-chardet python3-pkg-resources
/usr/local/lib/packages/make.py "$flavour" "$release"
echo 'deb [trusted=yes] file:/usr/local/share/distribution ./' > /etc/apt/sources.list
rm -rf /var/lib/apt/lists/*
