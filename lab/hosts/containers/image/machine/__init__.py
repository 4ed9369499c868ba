# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The simulated GPU machine inside a container host: its devices, its boot loader's choice, and the modules that its kernel has loaded.

The container's kernel is the real machine's, which must neither be read nor changed. So a hook lays files of the container's own over the
parts of /proc and /sys that GPU hosts are judged by, and what is here keeps those files as a real kernel would.
"""
