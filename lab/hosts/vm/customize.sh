#!/bin/sh
# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# customize.sh ROOT UUID KEY: turn a Debian root file system into a machine that boots from the file system UUID and
# lets the owner of the SSH key KEY log in.
set -eu
root=$1 uuid=$2 key=$3

# The machine has no network. Another kernel of its distribution is in a repository on its disk.
mkdir -p "$root/srv/kernels"
chroot "$root" sh -eu << 'END'
cd /srv/kernels
apt-get --quiet --quiet download "$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9]\)/\1/p')"
for file in *.deb; do
  dpkg-deb --field "$file"
  printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$file" "$(stat -c %s "$file")" "$(sha256sum "$file" | cut -d' ' -f1)"
done > Packages
echo 'deb [trusted=yes] file:/srv/kernels ./' > /etc/apt/sources.list.d/kernels.list
END

echo testvm > "$root/etc/hostname"
echo "127.0.0.1 localhost testvm" > "$root/etc/hosts"
echo "UUID=$uuid / ext4 errors=remount-ro 0 1" > "$root/etc/fstab"
printf '[Match]\nType=ether\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n' \
  > "$root/etc/systemd/network/10-ethernet.network"
mkdir -p -m 700 "$root/root/.ssh"
install -m 600 "$key" "$root/root/.ssh/authorized_keys"
chroot "$root" systemctl --quiet enable systemd-networkd ssh serial-getty@ttyS0
chroot "$root" systemctl --quiet mask systemd-networkd-wait-online apt-daily.timer apt-daily-upgrade.timer \
  e2scrub_all.timer e2scrub_reap.service systemd-pstore.service fstrim.timer man-db.timer 2> /dev/null

# The other scripts of GRUB are slow in emulation and find nothing.
chmod -x "$root/etc/grub.d/20_linux_xen" "$root"/etc/grub.d/30_*
mkdir -p "$root/boot/grub"
cp -r "$root/usr/lib/grub/i386-pc" "$root/boot/grub/"
# Debian's kernel turns Intel's IOMMU on by default. It is off here, as on EL and Ubuntu, so that a role's change shows.
cat > "$root/etc/default/grub" << 'END'
GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_DISTRIBUTOR=Debian
GRUB_CMDLINE_LINUX_DEFAULT="intel_iommu=off"
GRUB_CMDLINE_LINUX="console=ttyS0,115200"
GRUB_TERMINAL=serial
GRUB_SERIAL_COMMAND="serial --unit=0 --speed=115200"
GRUB_DISABLE_OS_PROBER=true
GRUB_DISABLE_RECOVERY=true
END
# grub-mkconfig would look for the disk of the build machine. The guest's first update-grub replaces this file.
kernel=$(basename "$(ls "$root"/boot/vmlinuz-* | sort -V | tail -1)" | sed s/vmlinuz-//)
cat > "$root/boot/grub/grub.cfg" << END
set timeout=0
serial --unit=0 --speed=115200
terminal_output serial
menuentry "Debian" {
	search --no-floppy --fs-uuid --set=root $uuid
	linux	/boot/vmlinuz-$kernel root=UUID=$uuid ro console=ttyS0,115200 intel_iommu=off
	initrd	/boot/initrd.img-$kernel
}
END
: > "$root/etc/machine-id"
: > "$root/etc/apt/sources.list"
rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*.bin
