# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The expected kernels are those of GRUB itself: ``grub-emu`` 2.06 of Debian 12 has run these scripts.

Its commands ``linux`` and ``initrd`` were replaced by a function that prints its arguments.
"""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_choice import UnknownBootError
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_menu import (
    Boot,
    BootMachine,
    boot,
    parse,
)
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_state import LoadedEntry
from ansible_collections.gpuops.nvidia.plugins.module_utils._host.facts.boot.grub_test import UNKNOWN_TEXT
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot as wording

from tests.unit.fakes.host import recorded

FILES = {"/boot/grub/grubenv": "x"}


def booted(
    text: str, files: t.Mapping[str, str] | None = None, entries: t.Sequence[LoadedEntry] = (), **environment: str
) -> Boot:
    return boot(
        parse(text),
        BootMachine(
            prefix="/boot/grub",
            platform="pc",
            cpu="x86_64",
            environment=environment,
            read=(FILES if files is None else files).get,
            entries=lambda value_of: entries,
        ),
    )


def kernel(text: str, **environment: str) -> str:
    linux = booted(text, **environment).kernel
    return " ".join([linux.path, *linux.arguments])


AWS = recorded("menus/ubuntu-aws.cfg")
FILESYSTEM = "b993fcf5-2d55-493c-b232-97ca4539f4e9"
ARGUMENTS = (
    "root=PARTUUID=26f22d2b-892e-459e-ba29-0fdab351f296 ro console=tty1 console=ttyS0 cma=8G "
    "nvme_core.io_timeout=4294967295"
)
NEWEST = f"/boot/vmlinuz-6.5.13 {ARGUMENTS}"
OLDER = f"/boot/vmlinuz-6.5.0-1020-aws {ARGUMENTS}"


@pytest.mark.parametrize(
    ("environment", "line"),
    [
        ({}, f"{NEWEST} panic=-1"),
        ({"initrdfail": "1"}, NEWEST),
        ({"initrdfail": "1", "prev_entry": "1>2"}, f"{OLDER} panic=-1"),
        ({"recordfail": "1"}, f"{NEWEST} panic=-1"),
        ({"next_entry": "1>2"}, f"{OLDER} panic=-1"),
        ({"next_entry": "0x1>2"}, f"{OLDER} panic=-1"),
        ({"next_entry": "01>2"}, f"{OLDER} panic=-1"),
        ({"next_entry": " 1>2"}, f"{OLDER} panic=-1"),
        ({"next_entry": "1 >2"}, f"{OLDER} panic=-1"),
        ({"next_entry": "1>2>3"}, f"{OLDER} panic=-1"),
        ({"next_entry": "1>Ubuntu, with Linux 6.5.0-1020-aws"}, f"{OLDER} panic=-1"),
        (
            {"next_entry": f"gnulinux-advanced-{FILESYSTEM}>gnulinux-6.5.0-1020-aws-advanced-{FILESYSTEM}"},
            f"{OLDER} panic=-1",
        ),
        ({"next_entry": "1"}, f"{NEWEST} panic=-1"),
        ({"next_entry": "1>"}, f"{NEWEST} panic=-1"),
        ({"next_entry": "1>9"}, f"{NEWEST} panic=-1"),
        ({"next_entry": "1>Nothing"}, f"{NEWEST} panic=-1"),
        ({"next_entry": "7>2"}, f"{NEWEST} panic=-1"),
        ({"next_entry": "08>2"}, f"{NEWEST} panic=-1"),
        ({"next_entry": ">2"}, f"{NEWEST} panic=-1"),
        ({"next_entry": "1abc"}, f"{NEWEST} panic=-1"),
        ({"next_entry": "Nothing>2"}, f"{NEWEST} panic=-1"),
    ],
)
def test_an_image_of_amazons_cloud(environment: dict[str, str], line: str) -> None:
    assert kernel(AWS, **environment) == line


def test_ubuntu_on_a_disk() -> None:
    found = booted(recorded("menus/ubuntu-24.04.cfg"))
    assert found.kernel.path == "/vmlinuz-6.8.0-88-generic"
    assert found.kernel.arguments == ("root=/dev/mapper/ubuntu--otus-ubuntu--lv", "ro")
    assert found.files == ()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("menuentry A {linux /k a}\nmenuentry B {linux /l b}", "/k a"),
        ("menuentry A{linux /k a;}", "/k a"),
        ("# menuentry x {\nmenuentry A { # c }\nlinux /k a#b # c\n}", "/k a#b"),
        ("menuentry A {\nlinux /k a \\\n b\n}", "/k a b"),
        ("default=two\nmenuentry A --id one {linux /k}\nmenuentry B --id two {linux /l x}", "/l x"),
        ("default=q\nmenuentry A {linux /k}\nmenuentry B --id=q {linux /l}", "/l"),
        ("default=k\nmenuentry A {linux /k}\nmenuentry --hotkey k B --id q {linux /l}", "/k"),
        ("default=B\nmenuentry A --id B {linux /k}\nmenuentry B {linux /l}", "/k"),
        ('default="2 fast"\nmenuentry A {linux /k}\nmenuentry "2 fast" {linux /l}\nmenuentry C {linux /m}', "/m"),
        ('default="a>>b"\nmenuentry A {linux /k}\nmenuentry "a>b" {linux /l}', "/l"),
        (
            'default="1>0>1"\nmenuentry A {linux /k}\n'
            "submenu S { submenu T { menuentry U {linux /l}; menuentry V {linux /m v}; }; }",
            "/m v",
        ),
        ("x='a b'\nmenuentry A { linux /k a\"b\"c $x y${x}z \\$x '$x' }", "/k abc a b ya bz $x $x"),
        ("x=' a b '\nmenuentry A { linux /k p$x$x ${x}q end}", "/k pa ba b a bq end"),
        ("menuentry A { linux /k $x a}", "/k a"),
        ('a=1\nif [ "$a" = 1 -a -n "$a" ]; then b=x; elif true; then b=y; fi\nmenuentry A { linux /k $b}', "/k x"),
        ("if [ 1 = 2 ]; then b=x; elif false; then b=y; else b=z; fi\nmenuentry A { linux /k $b}", "/k z"),
        ("if ! [ 1 = 2 ]; then y=1; fi\nmenuentry A { linux /k y$y}", "/k y1"),
        ("if test a = a; then y=1; fi\nmenuentry A { linux /k y$y}", "/k y1"),
        ("function f { linux /k$1 $2 $# $@; }\nmenuentry A { f 1 b c; }", "/k1 b 3 1 b c"),
        ("menuentry A --class x { linux /k $1 $0}", "/k A"),
        ('for i in a b c; do x="$x $i"; done\nmenuentry A { linux /k $x}', "/k a b c"),
        ("a=1 b=2\nset c=3 d=4\nmenuentry A { linux /k a$a b$b c$c d$d}", "/k a1 b c3 d"),
        ("x=1; unset x\nmenuentry A { linux /k a$x}", "/k a"),
        ("menuentry A { x=1; linux /k $x}", "/k 1"),
        ("if [ -f $prefix/none.cfg ]; then x=1; fi\nif [ -s $prefix/grubenv ]; then y=1; fi\n"
         "menuentry A { linux /k x$x y$y}", "/k x y1"),
        ("if true; then menuentry A {linux /k}; else menuentry B {linux /l}; fi", "/k"),
    ],
)  # fmt: skip
def test_a_script(text: str, line: str) -> None:
    assert kernel(text) == line


TUNED = """set tuned_params="isolcpus=1-3 nohz=on"
{}
set default=1
menuentry A {{ linux /k a; }}
submenu S {{
  menuentry B {{ linux /l ro $tuned_params quiet; }}
}}
"""


def test_the_arguments_of_tuned_reach_a_submenu_if_they_are_exported() -> None:
    assert kernel(TUNED.format("export tuned_params")) == "/l ro isolcpus=1-3 nohz=on quiet"
    assert kernel(TUNED.format("")) == "/l ro quiet"


def test_an_argument_with_a_space_gets_quotation_marks_on_the_kernels_command_line() -> None:
    """As the function grub_create_loader_cmdline in GRUB's lib/cmdline.c does."""
    text = """menuentry A { linux /k dyndbg="file x +p" 'a"b' }"""
    assert booted(text).kernel.arguments == ('"dyndbg=file x +p"', 'a\\"b')


# ---- what only GRUB knows ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("if search --label x; then a=1; else a=1; fi\nmenuentry A {linux /k a$a}", "/k a1"),
        ("if search --label x; then a=1; fi\nmenuentry A {linux /k a$a}", f"/k a{UNKNOWN_TEXT}"),
        ("search --set=x y\nmenuentry A {linux ($x)/k}", f"({UNKNOWN_TEXT})/k"),
        ("probe --set x y\nmenuentry A {linux /k $x}", f"/k {UNKNOWN_TEXT}"),
        ("menuentry A {linux ($root)/k}", f"({UNKNOWN_TEXT})/k"),
        ("menuentry A {if sleep 1; then linux /k a; else linux /k b; fi}", f"/k {UNKNOWN_TEXT}"),
        ("menuentry A {if sleep 1; then linux /k a; else linux /l; fi}", f"{UNKNOWN_TEXT} {UNKNOWN_TEXT}"),
        ("menuentry A {chainloader +1}", f"{UNKNOWN_TEXT} {UNKNOWN_TEXT}"),
        ("menuentry A {echo}", f"{UNKNOWN_TEXT} {UNKNOWN_TEXT}"),
        ("while true; do x=a$x; done\nmenuentry A {linux /k $x}", f"/k {UNKNOWN_TEXT}"),
        ("load_env -f /x/y z\nmenuentry A {linux /k $z}", f"/k {UNKNOWN_TEXT}"),
        ("load_env -f (hd0)/x\nmenuentry A {linux /k $kernelopts $y}", f"/k {UNKNOWN_TEXT}"),
        ("load_env -f $prefix/grubenv\nmenuentry A {linux /k $kernelopts}", "/k"),
        ('if [ "$?" = 0 ]; then x=1; fi\nmenuentry A {linux /k $x}', f"/k {UNKNOWN_TEXT}"),
        ("menuentry A {linux /k}\nif sleep 1; then menuentry B {linux /l}; fi", "/k"),
    ],
)
def test_what_depends_on_it_is_unknown(text: str, line: str) -> None:
    assert kernel(text) == line


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", wording("it has no entries")),
        ("set default=$root\nmenuentry A {linux /k}", wording("it chooses the entry in a way that only GRUB knows")),
        (
            "if sleep 1; then menuentry B {linux /l}; fi\nmenuentry A {linux /k}",
            wording("which entries it has depends on what only GRUB knows"),
        ),
        (
            "default=X\nmenuentry A {linux /k}\nsource (hd0)/x",
            wording("which entries it has depends on what only GRUB knows"),
        ),
        ("configfile /x\n", wording("which entries it has depends on what only GRUB knows")),
        ("menuentry A {", wording("its script cannot be followed: there is no }")),
        (
            "function f { return; }\nf\nmenuentry A {linux /k}",
            wording("its script cannot be followed: it uses return"),
        ),
        ("function f { f; }\nf\n", wording("its script cannot be followed: its functions call themselves")),
        (
            "function f { for i in 1 2 3; do g; done; }\nfunction g { f; f; }\nf\n",
            wording("its script cannot be followed: its functions call themselves"),
        ),
    ],
)
def test_a_menu_that_cannot_be_followed(text: str, problem: str) -> None:
    with pytest.raises(UnknownBootError) as error:
        kernel(text)
    assert str(error.value) == problem


def test_files_in_grubs_folder_are_read_and_named() -> None:
    files = {"/boot/grub/custom.cfg": "menuentry C {linux /c}"}
    text = "if [ -f $prefix/custom.cfg ]; then source $prefix/custom.cfg; fi\nsource $prefix/none.cfg"
    found = booted(text, files)
    assert (found.kernel.path, found.files) == ("/c", ("/boot/grub/custom.cfg",))


def test_the_variables_that_were_read_are_named() -> None:
    assert booted("load_env\nmenuentry A {linux /k $x}", x="1").variables == {"x"}


def test_entries_of_the_boot_loader_specification_prefer_their_names_to_numbers() -> None:
    entries = [
        LoadedEntry(name, name, parse(f"linux /{name}"), source=f"/{name}.conf") for name in ("6f-new", "1f-old")
    ]
    text = "load_env\nset default=$saved_entry\nblscfg\n"
    assert booted(text, entries=entries, saved_entry="1f-old").kernel.path == "/1f-old"
    assert booted(text, entries=entries, saved_entry="1").kernel.path == "/1f-old"
    assert booted(text, entries=entries, saved_entry="gone").kernel.path == "/6f-new"


PIECES = ["if", "then", "fi", "while", "do", "done", "function f {", "f", "{", "}", "[ $a = b ]", "menuentry A {"]
PIECES += ["submenu S {", "linux /k $a", "set default=1", "load_env", "search --set=a", "blscfg", "source $prefix/x"]
PIECES += ["for i in 1 2", "export a", "a=$default", "$a", ";", "\n", "default='1>0'", "return", "configfile x", "$1"]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=60).map(" ".join), st.text(max_size=9))
def test_any_script_boots_something_or_is_unknown(text: str, saved: str) -> None:
    try:
        found = booted(text, saved_entry=saved, default=saved)
    except UnknownBootError as problem:
        assert str(problem)
        return
    assert isinstance(found.kernel.path, str)


def test_unset_forgets_only_what_it_names() -> None:
    assert kernel("unset=1\nx=2\nunset x\nmenuentry A {\nlinux /k $unset $x\n}") == "/k 1"


def test_the_status_of_a_condition_without_a_branch_and_of_unset_is_success() -> None:
    text = "if {tests}; then x=yes; else x=no; fi\nmenuentry A {{\nlinux /k $x\n}}"
    assert kernel(text.format(tests="if false; then false; fi")) == "/k yes"
    assert kernel(text.format(tests="unset y")) == "/k yes"
    assert kernel(text.format(tests="if [ -e /elsewhere ]; then true; else true; fi")) == "/k yes"


def test_a_source_without_a_file_leaves_the_menu_unknown() -> None:
    with pytest.raises(UnknownBootError) as error:
        booted("source\nmenuentry A {\nlinux /k\n}")
    assert str(error.value) == wording("which entries it has depends on what only GRUB knows")


def test_many_functions_one_after_the_other_are_not_nested() -> None:
    calls = "f; " * 100
    assert kernel(f"function f {{\nx=1\n}}\n{calls}\nmenuentry A {{\nlinux /k $x\n}}") == "/k 1"


def test_a_loop_that_never_ends_is_given_up() -> None:
    loop = "function {} {{\nfor i in 1 2 3 4 5 6 7 8 9; do {}; done\n}}\n"
    text = (
        "".join(loop.format(*names) for names in (("e", "x=1"), ("d", "e"), ("c", "d"), ("b", "c"), ("a", "b"))) + "a"
    )
    with pytest.raises(UnknownBootError, match="its functions call themselves"):
        booted(text)
