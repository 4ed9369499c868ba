# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 gpuops.nvidia contributors
"""Benchmarks that compare the collection with what users would use instead, in the same run on the lab."""
