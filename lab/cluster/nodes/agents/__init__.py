# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 gpuops.nvidia contributors
"""Simulates the programs inside the pods: drivers load, GPUs appear, nodes get labels."""
