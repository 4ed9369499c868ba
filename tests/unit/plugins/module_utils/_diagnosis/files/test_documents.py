# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of a path."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.files import documents
from ansible_collections.gpuops.nvidia.plugins.module_utils._diagnosis.files.documents import Documents, LeftOut
from ansible_collections.gpuops.nvidia.plugins.module_utils._errors import GpuOpsError
from inline_snapshot import snapshot as wording

LIMIT = 1 << 20


def read(path: Path, limit: int = LIMIT) -> tuple[dict[str, bytes], dict[str, str]]:
    documents = Documents(str(path), limit)
    return dict(documents), {each.name: each.why for each in documents.left_out}


def test_a_file_and_a_compressed_one(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"text")
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(b"text"))
    assert read(tmp_path / "a.log") == ({"a.log": b"text"}, {})
    assert read(tmp_path / "b.log.gz") == ({"b.log.gz": b"text"}, {})


def test_a_folder_in_order_without_links_pipes_and_secrets(tmp_path: Path) -> None:
    folder = tmp_path / "gather"
    (folder / "b").mkdir(parents=True)
    (folder / "b" / "two").write_bytes(b"2")
    (folder / "one").write_bytes(b"1")
    (folder / "secrets.yaml").write_bytes(b"secret")
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "folder").symlink_to("/etc")
    os.mkfifo(folder / "pipe")
    found, left_out = read(folder)
    assert found == {"gather/one": b"1", "gather/b/two": b"2"}
    assert left_out["gather/secrets.yaml"] == "It may hold secrets."
    assert left_out["gather/pipe"] == "It is no file."
    assert left_out["gather/link"].startswith("It cannot be read: Too many levels of symbolic links")


def test_a_path_that_is_a_link_is_the_users_word(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"text")
    (tmp_path / "link").symlink_to("real")
    assert read(tmp_path / "link") == ({"link": b"text"}, {})


def test_an_archive_with_everything_that_must_not_be_followed(tmp_path: Path) -> None:
    target = tmp_path / "x.tar.gz"
    with tarfile.open(target, "w:gz") as archive:
        for name, data in {
            "../../evil": b"e",
            "/abs": b"a",
            "in.log.gz": gzip.compress(b"inner"),
            "k.pem": b"k",
        }.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        link = tarfile.TarInfo("hard")
        link.type, link.linkname = tarfile.LNKTYPE, "/etc/shadow"
        archive.addfile(link)
        broken = tarfile.TarInfo("broken.gz")
        broken.size = 20
        archive.addfile(broken, io.BytesIO(gzip.compress(b"text" * 100)[:20]))
    found, left_out = read(target)
    assert found == {"../../evil": b"e", "/abs": b"a", "in.log.gz": b"inner"}
    assert set(left_out) == {"hard", "k.pem", "broken.gz"}
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["x.tar.gz"]


def test_a_long_file_is_read_at_its_ends(tmp_path: Path) -> None:
    (tmp_path / "big.log").write_bytes(b"first" + b"x" * 3 * LIMIT + b"last")
    found, left_out = read(tmp_path / "big.log")
    data = found["big.log"]
    assert (len(data), data[:5], data[-4:]) == (LIMIT + 1, b"first", b"last")
    assert [*left_out.values()] == [wording("At most 1 MiB are read of a file.")]
    (place,) = left_out
    assert place.startswith(f"{2 * LIMIT + 9} bytes ") and place.endswith(" big.log")


def test_a_bomb_in_an_archive_costs_no_memory(tmp_path: Path) -> None:
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"\0" * 64 * LIMIT))
    found, left_out = read(tmp_path / "bomb.gz")
    assert len(found["bomb.gz"]) == LIMIT + 1 and len(left_out) == 1


def test_too_many_files_end_the_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "FILES", 2)
    for name in "abc":
        (tmp_path / name).write_bytes(b"x")
    given = Documents(str(tmp_path), LIMIT)
    assert len(list(given)) == 2
    assert given.left_out == [
        LeftOut(f"{tmp_path.name}/c and what follows", "More than 2 files or 16 MiB."),
    ]


def test_a_path_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(GpuOpsError) as caught:
        list(Documents(str(tmp_path / "missing"), LIMIT))
    assert caught.value.reason == "NotFound"
    assert caught.value.msg.replace(str(tmp_path), "TMP") == wording(
        "TMP/missing cannot be read: No such file or directory. Set path to a file, a folder or an archive on the controller."
    )


def zipped(path: Path, *members: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def test_a_zip_archive_without_links_and_secrets(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("b/link")
    link.external_attr = 0o120777 << 16
    path = zipped(
        tmp_path / "a.zip", ("a.log", b"1"), ("b/", b""), ("b/c.log.gz", gzip.compress(b"2")), (link, b"/etc/passwd"),
        ("secrets.yaml", b"secret"), ("../up.log", b"3"),
    )  # fmt: skip
    found, left_out = read(path)
    assert found == {"a.log": b"1", "b/c.log.gz": b"2", "../up.log": b"3"}
    assert set(left_out) == {"b/link", "secrets.yaml"}


def test_a_zip_archive_that_unpacks_to_far_more_is_refused_with_words(tmp_path: Path) -> None:
    path = zipped(tmp_path / "bomb.zip", *((f"{number}.log", bytes(1 << 25)) for number in range(4)))
    found, left_out = read(path)
    assert found == {} and list(left_out) == ["bomb.zip"]
    assert "134217728" in left_out["bomb.zip"]


def test_damaged_and_encrypted_zip_archives_are_left_out(tmp_path: Path) -> None:
    whole = zipped(tmp_path / "a.zip", ("a.log", b"text" * 100)).read_bytes()
    (tmp_path / "a.zip").write_bytes(whole[:40])
    assert list(read(tmp_path / "a.zip")[1]) == ["a.zip"]
    place = whole.index(b"PK\x01\x02") + 8
    (tmp_path / "b.zip").write_bytes(whole[:place] + b"\x01" + whole[place + 1 :])
    found, left_out = read(tmp_path / "b.zip")
    assert found == {} and set(left_out) == {"a.log"}
