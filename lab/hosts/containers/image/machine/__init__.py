# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The simulated GPU machine in a container host: its devices, its boot loader and the modules of its kernel.

The container runs on the kernel of the real machine, whose state must neither be read nor changed. A hook mounts files
of the container over the parts of /proc and /sys that describe a GPU host. This package updates them as a kernel would.
"""
