#!/bin/sh
# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# ubuntu.sh RELEASE: the Ubuntu lookalike, with Debian's packages under Ubuntu's name. It tests the branches for Ubuntu,
# not Ubuntu itself.
set -eu
/usr/local/lib/build/debian.sh "$1" ubuntu
rm -f /etc/os-release
cat > /etc/os-release << 'END'
PRETTY_NAME="Ubuntu 24.04.3 LTS"
NAME="Ubuntu"
VERSION_ID="24.04"
VERSION="24.04.3 LTS (Noble Numbat)"
VERSION_CODENAME=noble
ID=ubuntu
ID_LIKE=debian
HOME_URL="https://www.ubuntu.com/"
UBUNTU_CODENAME=noble
END
cat > /etc/lsb-release << 'END'
DISTRIB_ID=Ubuntu
DISTRIB_RELEASE=24.04
DISTRIB_CODENAME=noble
DISTRIB_DESCRIPTION="Ubuntu 24.04.3 LTS"
END
echo trixie/sid > /etc/debian_version
sed -i 's/Debian/Ubuntu/' /etc/default/grub
update-grub
