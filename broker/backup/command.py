"""The commands `backup`, `restore` and `rehearse` of `python -m escapement_mq` (and of manage.py).

Each writes its result to standard output and what it does to standard error, and ends with 0 if all is well, 1 if what
it looked at is damaged, 2 if it was refused, 130 if it was stopped.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import UTC, datetime
from tempfile import TemporaryDirectory
from typing import Any

from ..engine.disk import Files, OsFiles
from ..engine.errors import BrokerError
from ..log_lines import escaped
from ..version import version
from .directory import BackupDirectory
from .errors import BackupDamaged, BackupRefused
from .manifest import Manifest
from .pipe import BackupPipe
from .restoring import Rehearsal, Restored, rehearse, restore_directory, restore_stream
from .taking import Origin, take

_PIPE = "-"
#: Lines of each kind that are printed; what is worse is not read line by line.
_LINES = 50


def backup(arguments: list[str] | None = None) -> int:
    """Take a backup of a store, beside its broker or without; return the exit code."""
    parser = argparse.ArgumentParser(prog="backup", description=_described(backup))
    parser.add_argument("store", help="store directory; its broker may run")
    parser.add_argument("--to", required=True, help="directory of the backups of this store, or - for a tar stream")
    parser.add_argument(
        "--name", default=os.environ.get("ESCAPEMENT_BROKER", "broker-a"), help="name of the broker, for the manifest"
    )
    parser.add_argument("--mb-per-s", type=float, default=None, help="read the log no faster than this (MB per second)")
    options = parser.parse_args(arguments)
    if options.mb_per_s is not None and options.mb_per_s <= 0:
        parser.error("--mb-per-s must be a number above 0")
    return _run(lambda: _backup(options), "The backup is incomplete: run the same command again.")


def restore(arguments: list[str] | None = None) -> int:
    """Restore a backup to an empty directory; return the exit code."""
    parser = argparse.ArgumentParser(prog="restore", description=_described(restore))
    parser.add_argument("backup", help="directory of the backup, or - for a tar stream")
    parser.add_argument("store", help="store directory to create; if it exists, it must be empty")
    parser.add_argument("--until", type=_moment, metavar="TIME", help="the state at a time: 2026-11-26T12:00:00+00:00")
    options = parser.parse_args(arguments)
    return _run(lambda: _restore(options), "The restore is incomplete, no broker opens it: run the same command again.")


def rehearsal(arguments: list[str] | None = None) -> int:
    """Restore a backup to a temporary directory, open it, count and check it; return the exit code."""
    parser = argparse.ArgumentParser(prog="rehearse", description=_described(rehearsal))
    parser.add_argument("backup", help="directory of the backup, or - for a tar stream")
    parser.add_argument("--until", type=_moment, metavar="TIME", help="the state at a time")
    parser.add_argument("--in", dest="place", metavar="DIRECTORY", help="where to create the temporary directory")
    parser.add_argument("--delay-levels", default=None, help="messageDelayLevel of the broker, if it was changed")
    options = parser.parse_args(arguments)
    return _run(lambda: _rehearse(options), "The temporary directory was removed.")


def _described(command: Callable[..., int]) -> str:
    """Return what ``--help`` says of a command: its docstring, without what only callers are told."""
    return (command.__doc__ or "").partition(";")[0] + "."


def _run(work: Callable[[], int], stopped: str) -> int:
    """Do the work and say in one line why it was not done."""
    umask = os.umask(0o077)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return work()
    except KeyboardInterrupt:
        _tell(f"stopped. {stopped}")
        return 130
    except BackupDamaged as error:
        _tell(str(error))
        return 1
    except BrokerError as error:
        _tell(str(error))
        return 2
    except OSError as error:
        _tell(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}. {stopped}")
        return 2
    finally:
        signal.signal(signal.SIGTERM, before)
        os.umask(umask)


def _backup(options: argparse.Namespace) -> int:
    files, begin_s = OsFiles(), time.monotonic()
    per_s = None if options.mb_per_s is None else options.mb_per_s * 1e6
    origin = Origin(options.store, options.name, version(), _tell, bytes_per_s=per_s)
    with suppress(OSError):
        os.nice(10)  # the broker goes first
    if options.to == _PIPE:
        if sys.stdout.isatty():
            raise BackupRefused("A backup cannot be written to a terminal: redirect it to a file or a program.")
        with TemporaryDirectory(prefix="escapement-backup-") as spool:
            with closing(BackupPipe(files, spool, sys.stdout.buffer)) as pipe:
                manifest = take(files, origin, pipe, _now_ms())
            sys.stdout.buffer.flush()
        for line in _said_of(manifest, pipe.new_bytes, 0, time.monotonic() - begin_s):
            _tell(line)
        return 0
    with closing(BackupDirectory(files, options.to)) as directory:
        manifest = take(files, origin, directory, _now_ms())
    seconds = time.monotonic() - begin_s
    said = _said_of(manifest, directory.new_bytes, directory.kept_bytes, seconds)
    sys.stdout.write("\n".join(map(escaped, said)) + "\n")
    return 0


def _said_of(manifest: Manifest, new_bytes: int, kept_bytes: int, seconds: float) -> list[str]:
    lines = [
        f"backup of {manifest.broker} at position {manifest.position:,}",
        f"messages stored from {written(manifest.first_ms)} to {written(manifest.last_ms)}",
        f"copied {new_bytes:,} bytes in {seconds:.1f} s, {kept_bytes:,} were there already",
    ]
    if manifest.left_out:
        lines.append(f"not part of a backup: {', '.join(manifest.left_out)}")
    return lines


def _restore(options: argparse.Namespace) -> int:
    begin_s = time.monotonic()
    restored = _restored(OsFiles(), options.backup, options.store, options.until)
    sys.stdout.write("\n".join([*_said_of_store(restored, options.until), f"took {_seconds(begin_s)}"]) + "\n")
    return 0


def _restored(files: Files, backup: str, root: str, until_ms: int | None) -> Restored:
    if backup == _PIPE:
        return restore_stream(files, sys.stdin.buffer, root, until_ms=until_ms, told=_tell)
    return restore_directory(files, backup, root, until_ms=until_ms, told=_tell)


def _said_of_store(restored: Restored, until_ms: int | None) -> list[str]:
    manifest, cut = restored.manifest, restored.cut
    lines = [
        f"restored {escaped(manifest.broker)} to position {restored.position:,}",
        f"messages stored from {written(manifest.first_ms)} to {written(restored.last_ms)}",
    ]
    if cut is None:
        return lines
    assert until_ms is not None
    lines.append(f"cut off: {cut.records:,} records stored at {written(until_ms)} or later")
    if cut.offsets_cut:
        lines.append(f"consumer offsets beyond the new ends, set back to them: {cut.offsets_cut:,}")
    if cut.revived_topics:
        topics = ", ".join(cut.revived_topics[:_LINES])
        lines.append(f"topics that were deleted later are back, with the settings of new ones: {escaped(topics)}")
    if cut.is_rebuilt:
        lines.append("the broker's first start rebuilds queues, index, timers and half messages from the log")
    return lines


def _rehearse(options: argparse.Namespace) -> int:
    with TemporaryDirectory(prefix="escapement-rehearsal-", dir=options.place) as place:
        files, root = OsFiles(), os.path.join(place, "store")
        found = rehearse(
            files, root, lambda: _restored(files, options.backup, root, options.until), _now_ms(),
            delay_levels=options.delay_levels,
        )  # fmt: skip
    lines = [*_said_of_store(found.restored, options.until), *_said_of_rehearsal(found)]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if found.report.is_sound else 1


def _said_of_rehearsal(found: Rehearsal) -> list[str]:
    manifest = found.restored.manifest
    lines = [f"checksums of {len(manifest.parts):,} files are right: {manifest.stored_bytes:,} bytes"]
    lines += [f"{name}: {count:,}" for name, count in found.counts.items()]
    lines.append(f"records: {found.report.counts['records']:,}")
    lines.append(
        f"a restore takes {found.restore_s:.1f} s, the first start after it {found.start_s:.1f} s"
        f" ({found.walked:,} records read in the log)"
    )
    damages = found.report.damages
    lines += [escaped(f"damaged: {damage}") for damage in damages[:_LINES]]
    if len(damages) > _LINES:
        lines.append(f"damaged: and {len(damages) - _LINES:,} more")
    lines.append("sound" if found.report.is_sound else f"{len(damages):,} places are damaged; the rest can be read")
    return lines


def _tell(line: str) -> None:
    sys.stderr.write(f"{escaped(line)}\n")
    sys.stderr.flush()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _seconds(begin_s: float) -> str:
    return f"{time.monotonic() - begin_s:.1f} s"


def written(moment_ms: int) -> str:
    """Return a moment as it can be given to --until; a dash for none."""
    if not moment_ms:
        return "-"
    return datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _moment(text: str) -> Any:
    """Return a moment with its zone in ms, as ``--until`` has it."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 2026-11-26T12:00:00+00:00") from None
    if moment.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} has no time zone: write {text}+00:00 for UTC")
    return round(moment.timestamp() * 1000)
