# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The services that host_driver sets up, on each generation of machines, with the units of Debian and Ubuntu.

The EL host has NVIDIA's module streams, and EPEL apart.
"""

from __future__ import annotations

import typing as t

import pytest

from lab.hosts.containers.hosts import ContainerHost
from tests.support import drivers
from tests.support.drivers import DRIVER, VERSION
from tests.support.plays import Plays

pytestmark = pytest.mark.slow("hosts of each family get a driver and start its services")

SERVED = DRIVER | {"host_driver_fabric_timeout": 10}
PERMITTED = SERVED | {"host_driver_interrupt": True}
FABRIC_MANAGER, IMEX, PERSISTENCED = (
    "nvidia-fabricmanager.service",
    "nvidia-imex.service",
    "nvidia-persistenced.service",
)


def enabled(host: ContainerHost, unit: str) -> str:
    return host.shell(f"systemctl is-enabled {unit} || true").strip()


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Plays]:
    """The three machines with the driver installed and not loaded."""
    with drivers.running_machines("services", tmp_path_factory.mktemp("plays")) as plays:
        el = plays.host("rhel")
        el.shell("mv /etc/yum.repos.d/epel.repo /srv")
        refused = plays.run("host_driver", limit=el.name, **SERVED)
        assert refused.status == 2, refused.output
        assert "Enable EPEL" in refused.message
        el.shell("mv /srv/epel.repo /etc/yum.repos.d")
        installed = plays.run("host_driver", **SERVED)
        assert installed.status == 0, installed.output
        yield plays


def test_the_services_start_with_the_driver_that_they_belong_to(plays: Plays) -> None:
    """Ubuntu's own unit of the persistence daemon is static, and leaves persistence mode off."""
    debian, ubuntu = plays.host("debian"), plays.host("ubuntu")
    assert "WantedBy" not in ubuntu.read("/usr/lib/systemd/system/nvidia-persistenced.service")
    for host in plays.hosts:
        assert (
            drivers.packages(host)["nvidia-persistenced" if host is not ubuntu else "nvidia-utils-580-server"]
            == VERSION
        )
        assert enabled(host, PERSISTENCED) == "enabled"
        drivers.load(host)

    served = plays.run("host_driver/services", **SERVED)
    assert served.status == 0, served.output
    assert plays.run("host_driver/services", **SERVED).changed == 0

    for host in plays.hosts:
        gpus = plays.facts(host, "gpus")["gpus"]
        assert gpus and {gpu["persistence_mode"] for gpu in gpus} == {True}, host.flavour
    assert "nvlsm" in drivers.packages(debian)
    for host in (debian, ubuntu):
        assert drivers.unit_state(host, FABRIC_MANAGER) == "active" and enabled(host, FABRIC_MANAGER) == "enabled"
    assert [gpu["fabric"]["state"] for gpu in plays.facts(ubuntu, "gpus")["gpus"]] == ["Completed"] * 2


@pytest.mark.wide
def test_an_upgrade_of_el_leaves_driver_and_companions_at_their_version(plays: Plays) -> None:
    """The fabric manager and IMEX are in no stream: without locks dnf would take them to the branch 590."""
    host = plays.host("rhel")
    assert "stream=580-open" in host.read("/etc/dnf/modules.d/nvidia-driver.module")
    assert drivers.packages(host)["nvidia-imex"] == VERSION
    locked = host.shell("dnf --assumeno upgrade 2>/dev/null || true")
    assert "590.44.01" not in locked and "580.105.08" not in locked, locked
    unlocked = host.shell("dnf --assumeno --disableplugin=versionlock upgrade 2>/dev/null || true")
    assert "nvidia-imex " in unlocked and "590.44.01" in unlocked


@pytest.mark.deep
def test_the_key_of_a_repository_of_dnf_is_a_url_or_a_text(plays: Plays) -> None:
    """The key is no real one: the driver is installed already, so that no package is checked with it."""
    host, [repository] = plays.host("rhel"), DRIVER["host_driver_repositories"]
    stored, repo = "/etc/pki/rpm-gpg/gpuops-nvidia.asc", "/etc/yum.repos.d/gpuops-nvidia.repo"
    text = "-----BEGIN PGP PUBLIC KEY BLOCK-----\nof a {}\n-----END PGP PUBLIC KEY BLOCK-----\n"
    host.shell(f"echo '{text.format('url').strip()}' > /srv/nvidia.pub")
    try:
        for origin, key in (("url", "file:///srv/nvidia.pub"), ("text", text.format("text"))):
            keyed = {**SERVED, "host_driver_repositories": [{**repository, "key": key}]}
            run = plays.run("host_driver", limit=host.name, **keyed)
            assert run.status == 0, run.output
            assert host.read(stored).strip() == text.format(origin).strip()
            assert "gpgcheck = 1" in host.read(repo) and f"gpgkey = file://{stored}" in host.read(repo)
            assert plays.run("host_driver", limit=host.name, **keyed).changed == 0
    finally:
        plays.run("host_driver", limit=host.name, **SERVED)
    assert "gpgcheck = 0" in host.read(repo)


@pytest.mark.wide
def test_imex_is_left_to_compute_domains_or_runs_on_the_host(plays: Plays) -> None:
    host = plays.host("rhel")
    assert enabled(host, IMEX) == "masked" and host.read("/var/lib/gpuops/masked_units").split() == [IMEX]

    def imex_with(*nodes: str, **variables: t.Any) -> str:
        run = plays.run("host_driver/services", limit=host.name, host_driver_imex_nodes=nodes, **variables)
        assert run.status == 0, run.output
        assert drivers.unit_state(host, IMEX) == "active"
        assert host.read("/etc/nvidia-imex/nodes_config.cfg").splitlines() == list(nodes)
        return host.shell("systemctl show --property=MainPID nvidia-imex.service")

    before = imex_with("192.0.2.1", "192.0.2.2", **SERVED)
    assert host.read("/var/lib/gpuops/masked_units").split() == []
    other = ["192.0.2.1", "192.0.2.3"]
    refused = plays.run("host_driver/services", limit=host.name, host_driver_imex_nodes=other, **SERVED)
    assert refused.status == 2 and "the list of trays" in refused.message, refused.output
    assert host.shell("systemctl show --property=MainPID nvidia-imex.service") == before
    assert imex_with(*other, **PERMITTED) != before, "IMEX reads the file only when it starts."


@pytest.mark.wide
def test_a_container_source_leaves_the_services_of_a_loaded_host_driver_alone(plays: Plays) -> None:
    host = plays.host("ubuntu")
    run = plays.run("host_driver/services", limit=host.name, **(SERVED | {"gpuops_driver": "container"}))
    assert run.status == 2 and f"runs its own driver {VERSION}, which needs {FABRIC_MANAGER}" in run.message, run.output
    assert drivers.unit_state(host, FABRIC_MANAGER) == "active"


def test_the_runtime_is_configured_as_the_check_has_shown(plays: Plays) -> None:
    host = plays.host("debian")
    config = "/etc/containerd/config.toml"
    host.shell("apt-get --quiet --yes install containerd.io && systemctl start containerd")
    before = host.read(config)
    refused = plays.run("host_driver/services", limit=host.name, **SERVED)
    assert refused.status == 2 and "containerd.service is restarted" in refused.message, refused.output
    check = plays.run("host_driver/services", limit=host.name, arguments=["--check", "--diff"], **PERMITTED)
    assert check.status == 0 and '+  BinaryName = "/usr/bin/nvidia-container-runtime"' in check.output, check.output
    assert host.read(config) == before
    done = plays.run("host_driver/services", limit=host.name, **PERMITTED)
    assert done.status == 0 and "runtimes.nvidia" in host.read(config), done.output
    assert plays.run("host_driver/services", limit=host.name, **SERVED).changed == 0


@pytest.mark.wide
def test_a_restart_that_a_killed_run_owes_is_made_with_permission(plays: Plays) -> None:
    """A run that was killed before it restarted containerd has left a mark."""
    host = plays.host("debian")
    mark, process = "/var/lib/gpuops/restarts/containerd.service", "systemctl show --property=MainPID containerd"
    host.shell(f"mkdir -p $(dirname {mark}) && touch {mark}")
    former = host.shell(process)
    refused = plays.run("host_driver", limit=host.name, **SERVED)
    assert refused.status == 2 and "containerd.service is restarted" in refused.message, refused.output
    predicted = plays.run("host_driver/services", limit=host.name, arguments=["--check"], **PERMITTED)
    assert predicted.status == 0 and host.shell(process) == former, predicted.output
    restarted = plays.run("host_driver/services", limit=host.name, **PERMITTED)
    assert (restarted.status, restarted.changed) == (0, predicted.changed), restarted.output
    assert host.shell(process) != former and not host.shell(f"ls {mark} || true")
    assert plays.run("host_driver", limit=host.name, **SERVED).changed == 0


@pytest.mark.wide
def test_a_daemon_that_a_killed_run_has_not_restarted_is_restarted_by_the_next(plays: Plays) -> None:
    """The file is as it should be, so that only the mark says that the daemon runs with the former one."""
    host, unit = plays.host("ubuntu"), "nvidia-persistenced.service"
    settled = plays.run("host_driver", limit=host.name, **SERVED)
    assert settled.status == 0, settled.output
    mark, process = f"/var/lib/gpuops/restarts/{unit}", f"systemctl show --property=MainPID {unit}"
    host.shell(f"mkdir -p $(dirname {mark}) && touch {mark}")
    former = host.shell(process)
    predicted = plays.run("host_driver", limit=host.name, arguments=["--check"], **SERVED)
    assert predicted.status == 0 and host.shell(process) == former, predicted.output
    done = plays.run("host_driver", limit=host.name, **SERVED)
    assert (done.status, done.changed) == (0, predicted.changed) and done.changed > 0, done.output
    assert host.shell(process) != former and not host.shell(f"ls {mark} 2>/dev/null || true")
    assert plays.run("host_driver", limit=host.name, **SERVED).changed == 0


DROPIN = "/etc/systemd/system/nvidia-persistenced.service.d/gpuops.conf"


@pytest.mark.parametrize(
    ("damage", "is_repaired"),
    [
        pytest.param(
            f"systemctl disable --now {FABRIC_MANAGER}",
            lambda host: drivers.unit_state(host, FABRIC_MANAGER) == "active",
            id="a service that is off",
        ),
        pytest.param(
            f"echo >> {DROPIN}",
            lambda host: not host.read(DROPIN).endswith("\n\n"),
            id="a file that was edited",
            marks=pytest.mark.wide,
        ),
    ],
)
@pytest.mark.wide
def test_what_is_as_it_should_be_is_left_alone_and_what_is_not_is_repaired(
    plays: Plays, damage: str, is_repaired: t.Callable[[ContainerHost], bool]
) -> None:
    """The whole role, which looks at the services only as far as the host's facts say that something is missing."""
    host = plays.host("ubuntu")
    settled = plays.run("host_driver", limit=host.name, **SERVED)
    assert (settled.status, settled.changed) == (0, 0), settled.output
    assert ": Enable and start" not in settled.output
    host.shell(damage)
    run = plays.run("host_driver", limit=host.name, **SERVED)
    assert run.status == 0 and run.changed > 0 and is_repaired(host), run.output


@pytest.mark.wide
def test_without_persistence_nothing_of_ours_is_left_of_the_daemon(plays: Plays) -> None:
    host = plays.host("ubuntu")
    off = SERVED | {"host_driver_persistence": False}
    done, again = (plays.run("host_driver/services", limit=host.name, **off) for dummy in range(2))
    assert (done.status, again.status, again.changed) == (0, 0, 0), again.output
    assert enabled(host, PERSISTENCED) == "static" and drivers.unit_state(host, PERSISTENCED) != "active"
    assert "gpuops" not in host.shell("ls /etc/systemd/system/nvidia-persistenced.service.d || true")
