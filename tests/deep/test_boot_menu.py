# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reader of boot menus against GRUB itself, as grub-emu: 2.06 of bookworm, 2.12 of trixie, and that of sid.

GRUB gets the menu with functions that print their arguments in place of the commands ``linux`` and ``initrd``.
"""

from __future__ import annotations

import base64
import json
import re
import zlib

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_menu import BootMachine, boot, parse

from lab.hosts.containers import releases
from lab.hosts.containers.hosts import ContainerHost
from tests.support.hosts import running_release
from tests.unit.fakes.host import recorded

pytestmark = pytest.mark.deep

PRINTS = """
function print_linux { echo "<linux>"; for word in "$@"; do echo "<$word>"; done; echo "</linux>"; }
function print_initrd { true; }
"""

# Runs on the host. grub-emu needs a terminal, and waits for keys after an entry that it cannot boot.
DRIVER = """
import base64, json, os, pathlib, pty, select, signal, time, zlib

def answer(menu, block):
    pathlib.Path("/menu").mkdir(exist_ok=True)
    pathlib.Path("/menu/grub.cfg").write_text(menu)
    pathlib.Path("/menu/grubenv").write_text(block)
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe("grub-emu", ["grub-emu", "--directory", "/menu"], {**os.environ, "TERM": "dumb"})
    output, end = b"", time.monotonic() + 20
    while b"</linux>" not in output and time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                output += os.read(terminal, 65536)
            except OSError:
                break
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(terminal)
    return output.decode("utf-8", "replace")

cases = json.loads(zlib.decompress(base64.b64decode(pathlib.Path("/cases").read_text())))
print(json.dumps([answer(*case) for case in cases]))
"""

FILESYSTEM = "b993fcf5-2d55-493c-b232-97ca4539f4e9"
CHOICES = [
    "",
    "0",
    "1",
    "7",
    "1>2",
    "1>9",
    "1>",
    ">2",
    "7>2",
    "0x1>2",
    "01>2",
    "08>2",
    " 1>2",
    "1 >2",
    "1>2>3",
    "1abc",
    "Nothing>2",
    "1>Ubuntu, with Linux 6.5.0-1020-aws",
    "Advanced options for Ubuntu>2",
    f"gnulinux-advanced-{FILESYSTEM}>gnulinux-6.5.0-1020-aws-advanced-{FILESYSTEM}",
]
SCRIPTS = [
    "menuentry A{linux /k a;}",
    "# menuentry x {\nmenuentry A { # c }\nlinux /k a#b # c\n}",
    "menuentry A {\nlinux /k a \\\n b\n}",
    "default=two\nmenuentry A --id one {\nlinux /k\n}\nmenuentry B --id two {\nlinux /l x\n}",
    'default="2 fast"\nmenuentry A {\nlinux /k\n}\nmenuentry "2 fast" {\nlinux /l\n}\nmenuentry C {\nlinux /m\n}',
    'default="a>>b"\nmenuentry A {\nlinux /k\n}\nmenuentry "a>b" {\nlinux /l\n}',
    "x='a b'\nmenuentry A {\nlinux /k a\"b\"c $x y${x}z \\$x '$x'\n}",
    "x=' a b '\nmenuentry A {\nlinux /k p$x$x ${x}q end\n}",
    'a=1\nif [ "$a" = 1 -a -n "$a" ]; then b=x; elif true; then b=y; fi\nmenuentry A {\nlinux /k $b\n}',
    "if ! [ 1 = 2 ]; then y=1; fi\nmenuentry A {\nlinux /k y$y\n}",
    "function f { linux /k$1 $2 $# $@; }\nmenuentry A {\nf 1 b c\n}",
    "menuentry A --class x {\nlinux /k $1\n}",
    'for i in a b c; do x="$x $i"; done\nmenuentry A {\nlinux /k $x\n}',
    "a=1 b=2\nset c=3 d=4\nmenuentry A {\nlinux /k a$a b$b c$c d$d\n}",
    "if [ -f $prefix/none.cfg ]; then x=1; fi\nif [ -s $prefix/grubenv ]; then y=1; fi\n"
    "menuentry A {\nlinux /k x$x y$y\n}",
    'set t="c=1-3 d"\nexport t\nset u=2\ndefault=1\nmenuentry A {\nlinux /k\n}\n'
    "submenu S {\nmenuentry B {\nlinux /l $t u$u\n}\n}",
]


AWS = recorded("menus/ubuntu-aws.cfg")
CASES: list[tuple[str, dict[str, str]]] = [
    *((AWS, {"next_entry": choice}) for choice in CHOICES),
    (AWS, {"initrdfail": "1"}),
    (AWS, {"initrdfail": "1", "prev_entry": "1>2"}),
    (AWS, {"recordfail": "1"}),
    *((script, {}) for script in SCRIPTS),
]


def write(host: ContainerHost, path: str, text: str) -> None:
    host.run("sh", "-c", 'printf %s "$1" > "$2"', "sh", text, path)


def for_grub(text: str, environment: dict[str, str]) -> tuple[str, str]:
    """Return grub.cfg and grubenv. Without a screen, only the plain terminal works."""
    menu = re.sub(r"^terminal_output .*$", "", text.replace("loadfont $font", "false"), flags=re.MULTILINE)
    menu = re.sub(r"(^|[\s{;])(linux|initrd)(?=\s+/)", r"\1print_\2", menu)
    block = "# GRUB Environment Block\n" + "".join(f"{name}={value}\n" for name, value in environment.items())
    return f"{PRINTS}{menu}\nset timeout=0\n", block.ljust(1024, "#")


def printed(output: str) -> list[str] | str:
    found = re.search(r"<linux>(.*?)</linux>", output.replace("\r", ""), re.DOTALL)
    return re.findall(r"<(.*?)>\n", found[1]) if found else output


def of_the_reader(text: str, environment: dict[str, str]) -> list[str]:
    files = {"/menu/grubenv": "#"}
    found = boot(parse(text), BootMachine("/menu", "emu", "x86_64", environment, files.get, lambda value_of: []))
    return [found.kernel.path, *found.kernel.arguments]


@pytest.mark.parametrize("suite", ["bookworm", "trixie", "sid"])
def test_every_menu_is_read_as_by_grub(suite: str) -> None:
    with running_release("menu", suite) as hosts:
        [host] = hosts.hosts()
        releases.install(host, "grub-emu")
        # One argument of a command has at most 128 KiB.
        cases = zlib.compress(json.dumps([for_grub(*case) for case in CASES]).encode(), 9)
        write(host, "/cases", base64.b64encode(cases).decode())
        write(host, "/driver.py", DRIVER)
        outputs = json.loads(host.run("python3", "/driver.py", timeout=1200).splitlines()[-1])
    different = [
        (environment or text, of_the_reader(text, environment), printed(output))
        for (text, environment), output in zip(CASES, outputs, strict=True)
        if of_the_reader(text, environment) != printed(output)
    ]
    assert different == []
