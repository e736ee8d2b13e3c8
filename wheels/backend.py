"""The build backend of setuptools, with archives that have the same bytes wherever and whenever built.

Members are sorted, have no owner, and have one date (SOURCE_DATE_EPOCH, else 1980) and one of two modes.
The wheel also gets its bill of materials (PEP 770): what was compiled in, with versions and licences.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import re
import tarfile
import time
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  (what stays as it is)

DATE = max(
    int(os.environ.get("SOURCE_DATE_EPOCH", 0)), 315532800
)  # a zip archive cannot hold an earlier date
# What is in the compiled modules besides our own code, as the SPDX list names its licences.
COMPILED_IN = (
    ("Cython", "Apache-2.0", "the C around each function"),
    ("numpy", "BSD-3-Clause", "inline functions and declarations of its headers"),
)
# In the README, which is the package's description: on a package index these would lead nowhere.
LINK_INTO_THE_SOURCE = re.compile(rb"(?<!!)\[([^\]]+)\]\((?!https?:)[^)\s]+\)")
IMAGE_IN_THE_SOURCE = re.compile(
    rb"^(?:!\[[^\]]*\]\((?!https?:)[^)\s]+\)|<picture>(?s:.*?)</picture>)\n\n", re.MULTILINE
)


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    """Make the sdist; return its file name."""
    name: str = build_meta.build_sdist(sdist_directory, config_settings)
    path = Path(sdist_directory, name)
    with tarfile.open(path) as tar:
        members = {
            member.name: (
                member,
                described(member.name, data.read()) if (data := tar.extractfile(member)) else b"",
            )
            for member in tar.getmembers()
        }
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=DATE) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for _, (member, content) in sorted(members.items()):
            plain = tarfile.TarInfo(member.name)
            plain.type, plain.size, plain.mtime = member.type, len(content), DATE
            plain.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            tar.addfile(plain, io.BytesIO(content))
    return name


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    """Make the wheel; return its file name."""
    name: str = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    path = Path(wheel_directory, name)
    with zipfile.ZipFile(path) as archive:
        contents = {member: described(member, archive.read(member)) for member in archive.namelist()}
    [record] = [member for member in contents if member.endswith(".dist-info/RECORD")]
    dist_info = record.removesuffix("/RECORD")
    del contents[record]
    contents[f"{dist_info}/sboms/{name.split('-')[0]}.cdx.json"] = bill_of_materials(name)
    lines = [f"{member},sha256={digest(data)},{len(data)}" for member, data in sorted(contents.items())]
    contents[record] = "\n".join([*lines, f"{record},,\n"]).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in sorted(contents.items()):
            plain = zipfile.ZipInfo(member, time.gmtime(DATE)[:6])
            plain.compress_type = zipfile.ZIP_DEFLATED
            executable = member.endswith(".so") or ".data/scripts/" in member
            plain.external_attr = (0o100755 if executable else 0o100644) << 16
            archive.writestr(plain, content)
    return name


def described(member: str, content: bytes) -> bytes:
    """A member's content; metadata has no images of the source folder, and plain text for links."""
    if member.rpartition("/")[2] in ("METADATA", "PKG-INFO"):
        return LINK_INTO_THE_SOURCE.sub(rb"\1", IMAGE_IN_THE_SOURCE.sub(b"", content))
    return content


def digest(content: bytes) -> str:
    """As RECORD writes it."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def bill_of_materials(wheel: str) -> bytes:
    """CycloneDX JSON of a wheel of this name. Nothing else is bundled: no library, no font, no script."""
    name, number = wheel.split("-")[:2]
    purl = f"pkg:pypi/{name.replace('_', '-')}@{number}"
    parts = [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{part.lower()}@{version(part)}",
            "name": part,
            "version": version(part),
            "purl": f"pkg:pypi/{part.lower()}@{version(part)}",
            "description": f"compiled in: {what}",
            "licenses": [{"license": {"id": licence}}],
        }
        for part, licence, what in COMPILED_IN
    ]
    itself = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": number,
        "purl": purl,
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": itself},
        "components": parts,
        "dependencies": [{"ref": purl, "dependsOn": [part["bom-ref"] for part in parts]}],
    }
    return (json.dumps(document, indent=1) + "\n").encode()
