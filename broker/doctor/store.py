"""Checks of a store directory and of the disk that it is on; safe beside a running broker."""

from __future__ import annotations

import os
import stat
import statistics
import time
from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import cast

from ..engine.config import EngineConfig
from ..engine.disk import OsFiles
from ..engine.errors import StoreUnsupported
from ..engine.fsck.survey import sizes_of
from ..engine.outside import FORMAT, reasons_outside
from . import Check, Finding, cannot_tell, change, ok

#: File systems that a sync of which is known to keep its word, and those that forget, or are elsewhere.
SOUND = frozenset(("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs"))
FORGETS = frozenset(("tmpfs", "ramfs"))
ELSEWHERE = frozenset(("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs", "fuse.glusterfs"))
REFUSES_AT = float(cast(float, {each.name: each.default for each in fields(EngineConfig)}["disk_refuse_ratio"]))
#: The disk is told of this much before the broker refuses messages.
WARN_BEFORE = 0.05
INODES_LEFT = 0.05
SYNC_MS = 20.0
BEHIND_MS = 1_000
_SYNCS = 25
_SYNC_BYTES = 4096
_MOST_FILES = 2_000


def there(root: Path) -> Finding:
    """Look whether the directory is a store that this version can open."""
    if not root.exists():
        return ok(f"{root} is not there yet: the first start makes it")
    if not root.is_dir():
        return change(f"{root} is no directory", f"mv {root} {root}.old, or another --store")
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        return change(f"{root} cannot be written by this user", f"sudo chown -R $(id -un) {root}")
    try:
        refused = reasons_outside(OsFiles(), str(root))
        sizes = sizes_of(OsFiles(), str(root))
    except StoreUnsupported as error:
        return change(str(error), "start the version that wrote it, or restore a backup (OPERATE.md)")
    if refused:
        return change(refused[0], "OPERATE.md, MOVING.md")
    if not sizes:
        return ok(f"{root} is empty: the first start makes a store")
    return ok(f"{root}, format {FORMAT}, segments of {sizes['segment_size_bytes']:,} bytes")


def disk_free(root: Path, refuses_at: float = REFUSES_AT) -> Finding:
    """Look how full the disk is: beyond a limit the broker takes no messages."""
    place = existing(root)
    used = OsFiles().used_ratio(str(place))
    disk = os.statvfs(place)
    free = f"{disk.f_bavail * disk.f_frsize / 2**30:,.1f} GiB free, {used:.0%} used"
    if used > refuses_at - WARN_BEFORE:
        return change(
            f"{free}; at {refuses_at:.0%} the broker refuses messages",
            f"free some: `du -xsh {place}/*`, a shorter fileReservedTime, or a larger disk (OPERATE.md)",
        )
    return ok(f"{free}, messages are refused at {refuses_at:.0%}")


def inodes(root: Path, wanted: float = INODES_LEFT) -> Finding:
    """Look how many files may still be made."""
    disk = os.statvfs(existing(root))
    if not disk.f_files:
        return ok("this file system counts no inodes")
    if disk.f_favail < wanted * disk.f_files:
        return change(
            f"{disk.f_favail:,} of {disk.f_files:,} inodes are left",
            f"remove small files of this disk: `sudo du --inodes -xd2 {_mount_of(root)[1]} | sort -n | tail`",
        )
    return ok(f"{disk.f_favail:,} of {disk.f_files:,} inodes are left")


def file_system(root: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> Finding:
    """Look on what kind of file system the store is, and how it is mounted."""
    try:
        kind, place, options = _mount_of(root, mountinfo)
    except OSError as error:
        return cannot_tell(f"mounts cannot be read: {error}")
    if "ro" in options:
        return change(f"{place} ({kind}) is mounted for reading only", f"sudo mount -o remount,rw {place}")
    if {"nobarrier", "barrier=0"} & options:
        return change(
            f"{place} ({kind}) is mounted without barriers: what was synced is lost with the power",
            f"sudo mount -o remount,barrier=1 {place}",
        )
    if kind in FORGETS:
        return change(f"{place} is {kind}: its content is lost with a restart", "a store on a disk: ESCAPEMENT_STORE")
    if kind in ELSEWHERE:
        return change(
            f"{place} is {kind}: locks and syncs of a file system elsewhere are not what the log is built on",
            "a store on a disk of this machine: ESCAPEMENT_STORE",
        )
    if kind == "overlay":
        return change(
            f"{place} is the layer of a container: it is lost with the container",
            "a volume at the store: ESCAPEMENT_STORE",
        )
    if kind in SOUND:
        return ok(f"{kind} at {place}")
    return cannot_tell(f"{place} is {kind}, which was not tried")


def sync_time(root: Path, limit_ms: float = SYNC_MS) -> Finding:
    """Measure how long a small write takes until it is on the disk: each send waits for one."""
    place = existing(root)
    path = place / f".doctor-{os.getpid()}"
    took_ms = []
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            for at in range(_SYNCS):
                began_ns = time.perf_counter_ns()
                os.pwrite(descriptor, b"x" * _SYNC_BYTES, at * _SYNC_BYTES)
                os.fdatasync(descriptor)
                took_ms.append((time.perf_counter_ns() - began_ns) / 1e6)
        finally:
            os.close(descriptor)
            path.unlink()
    except OSError as error:
        return change(f"nothing can be written to {place}: {error}", f"sudo chown -R $(id -un) {place}, or free some")
    text = f"{statistics.median(took_ms):.2f} ms for a sync of {_SYNC_BYTES} bytes, {max(took_ms):.2f} ms at most"
    if statistics.median(took_ms) > limit_ms:
        return change(text, "a quicker disk, or one of its own; ESCAPEMENT_FLUSH=async if a crash may lose messages")
    return ok(text)


def clock_of_store(root: Path, now_ms: int | None = None) -> Finding:
    """Look whether the store's newest message is of the past: a clock that was set back has timers leave late."""
    if (root / "simulatedClock").exists():
        return ok("the store lives by a simulated clock")
    try:
        newest_ms = int.from_bytes((root / "checkpoint").read_bytes()[:8], "big", signed=True)
    except FileNotFoundError:
        return ok("no message was stored yet")
    except OSError as error:
        return cannot_tell(str(error))
    behind_ms = newest_ms - (time.time_ns() // 1_000_000 if now_ms is None else now_ms)
    if behind_ms > BEHIND_MS:
        return change(
            f"the clock is {behind_ms / 1000:,.1f} s behind the store's newest message",
            "sudo timedatectl set-ntp true   (what is due comes late until it has caught up)",
        )
    return ok("the clock is ahead of the store's newest message")


def permissions(root: Path) -> Finding:
    """Look whether others may read messages, and secrets of the broker's users."""
    if not root.exists():
        return ok(f"{root} is not there yet")
    parent = root.stat()
    for path in _files_of(root):
        found = path.lstat()
        if found.st_uid != parent.st_uid:
            return change(f"{path} belongs to another user than its store", f"sudo chown -R --reference={root} {root}")
        if path == root and not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            break  # what is in it is reached by nobody else, whatever its own mode
        if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO) and not stat.S_ISLNK(found.st_mode):
            return change(f"others may use {path} ({stat.filemode(found.st_mode)})", f"chmod -R go-rwx {root}")
    return ok(f"{root} is for its user only")


def existing(root: Path) -> Path:
    """Return the directory, or the nearest one above it that is there."""
    return root if root.is_dir() or root == root.parent else existing(root.parent)


def _files_of(root: Path) -> Iterator[Path]:
    yield root
    for count, path in enumerate(root.rglob("*")):
        if count >= _MOST_FILES:
            return
        yield path


def _mount_of(root: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> tuple[str, str, set[str]]:
    """Return kind, place and options of the file system that holds a directory; raises OSError."""
    place = str(existing(root).resolve())
    best, kind, options = "", "?", set[str]()
    for line in mountinfo.read_text().splitlines():
        before, _dash, behind = line.partition(" - ")
        fields, (name, _source, *more) = before.split(), behind.split()
        mounted = fields[4].encode().decode("unicode_escape")
        is_above = place == mounted or place.startswith(mounted.rstrip("/") + "/")
        if is_above and len(mounted) >= len(best):
            best, kind, options = mounted, name, {*fields[5].split(","), *(more[0].split(",") if more else ())}
    return kind, best, options


def checks(root: Path) -> dict[str, Check]:
    """Return the checks of a store by name."""
    found = {
        "store": there,
        "disk.free": disk_free,
        "disk.inodes": inodes,
        "disk.file-system": file_system,
        "disk.sync": sync_time,
        "permissions.store": permissions,
        "clock.store": clock_of_store,
    }
    return {name: partial(check, root) for name, check in found.items()}
