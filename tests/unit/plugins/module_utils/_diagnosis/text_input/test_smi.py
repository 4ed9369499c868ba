# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What nvidia-smi -q prints."""

from __future__ import annotations

from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.text_input import smi

# The fields as drivers of the branches 570 to 595 print them, shortened.
REPORT = """\
==============NVSMI LOG==============

Timestamp                                 : Fri Nov 20 04:12:09 2026
Driver Version                            : 595.91.07
CUDA Version                              : 13.2

Attached GPUs                             : 2
GPU 00000000:18:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Product Architecture                  : Hopper
    Persistence Mode                      : Enabled
    MIG Mode
        Current                           : Disabled
        Pending                           : Enabled
    Serial Number                         : 1650124014249
    GPU UUID                              : GPU-4f8d2a10-6c1e-4a53-9b1d-0d6f0a3c1e01
    VBIOS Version                         : 96.00.74.00.01
    Inforom Version
        Image Version                     : G520.0200.00.05
    GSP Firmware Version                  : 595.91.07
    GPU Recovery Action                   : GPU Reset
    FB Memory Usage
        Total                             : 81559 MiB
        Used                              : 4 MiB
    ECC Mode
        Current                           : Enabled
        Pending                           : Enabled
    ECC Errors
        Volatile
            DRAM Correctable              : 0
            DRAM Uncorrectable            : 1
        Aggregate
            DRAM Correctable              : 2
            DRAM Uncorrectable            : 3
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 1
        Pending                           : Yes
        Remapping Failure Occurred        : No
    Fabric
        State                             : Completed
        Status                            : Success
        CliqueId                          : 0
        ClusterUUID                       : 00000000-0000-0000-0000-000000000000
GPU 00000000:3B:00.0
    Product Name                          : Tesla T4
    GPU Recovery Action                   : None
    ECC Mode
        Current                           : N/A
""".splitlines()


def test_the_facts_of_each_gpu() -> None:
    facts = smi.facts_of(REPORT)
    assert facts["driver"] == {"loaded": True, "version": "595.91.07"}
    first, second = facts["gpus"]
    assert (first["pci_address"], first["product"]) == ("0000:18:00.0", "NVIDIA H100 80GB HBM3")
    assert first["uuid"] == "GPU-4f8d2a10-6c1e-4a53-9b1d-0d6f0a3c1e01"
    assert (first["vbios"], first["inforom"], first["gsp"]) == ("96.00.74.00.01", "G520.0200.00.05", "595.91.07")
    assert (first["memory_mib"], first["persistence_mode"]) == (81559, True)
    assert first["recovery_action"] == "GPU_RESET"
    assert first["remapped_rows"] == {"correctable": 0, "uncorrectable": 1, "pending": True, "failure": False}
    assert first["ecc"] == {
        "enabled": True,
        "pending": True,
        "corrected": 0,
        "uncorrected": 1,
        "corrected_total": 2,
        "uncorrected_total": 3,
    }
    assert (first["mig"]["mode"], first["mig"]["pending"]) == (False, True)
    assert first["fabric"]["state"] == "Completed"
    assert (second["pci_address"], second["ecc"], second["mig"], second["fabric"]) == ("0000:3b:00.0", None, None, None)
    assert second["recovery_action"] == "NONE"


def test_a_part_of_a_report_and_none() -> None:
    assert smi.facts_of([]) == {"driver": {}, "gpus": []}
    assert [gpu["product"] for gpu in smi.facts_of(REPORT[:9])["gpus"]] == ["NVIDIA H100 80GB HBM3"]
