"""Checks of ports: free, ours, or taken by whom; and whether a broker that is there takes messages."""

from __future__ import annotations

import errno
import http.client
import os
import socket
from pathlib import Path

from . import Finding, cannot_tell, change, ok

_TIMEOUT_S = 3.0
_LISTENS = "0A"
"""TCP_LISTEN of /proc/net/tcp."""

#: What a process of ours has in its command line.
_OURS = ("escapement_mq", "escapement-console", "broker.server", "console.site", "-m broker", "-m console", "manage.py")


def port(what: str, host: str, number: int, setting: str) -> Finding:
    """Look whether a port is free for a program of ours, or it is there already."""
    if is_free(host, number):
        return ok(f"{number} on {host} is free for the {what}")
    holder = holder_of(number)
    if holder is None:
        return cannot_tell(f"{number} on {host} is in use; this user may not see by which process")
    pid, command = holder
    if any(part in command for part in _OURS):
        return ok(f"{number} on {host} is served by {pid} ({command[:60]})")
    return change(f"{number}, wanted for the {what}, is taken by {pid} ({command[:60]})", f"stop it, or set {setting}")


def is_free(host: str, number: int) -> bool:
    """Tell whether a program may listen there. Raises OSError for an address that is not of this machine."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, number, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True


def holder_of(number: int) -> tuple[int, str] | None:
    """Return id and command line of the process that listens at a port, None if this user is not told."""
    sockets = {f"socket:[{inode}]" for inode in _listening(number)}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            if any(os.readlink(each) in sockets for each in (process / "fd").iterdir()):
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                return int(process.name), command or (process / "comm").read_text().strip()
        except OSError:
            continue  # another user's, or it has just ended
    return None


def umask(number: int, proc: Path = Path("/proc")) -> Finding:
    """Look who may read what the process makes that listens at a port."""
    holder = holder_of(number)
    if holder is None:
        return cannot_tell(f"no process that this user may see listens at {number}")
    rows = dict(line.split(":\t", 1) for line in (proc / str(holder[0]) / "status").read_text().splitlines() if line)
    mask = int(rows["Umask"], 8)
    if mask & 0o077 != 0o077:
        return change(
            f"process {holder[0]} has umask {mask:03o}: others may read what it makes", "UMask=0077 in its unit"
        )
    return ok(f"process {holder[0]} has umask {mask:03o}")


def _listening(number: int) -> set[str]:
    inodes = set()
    for table in ("tcp", "tcp6"):
        try:
            rows = Path("/proc/net", table).read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == number:
                inodes.add(fields[9])
    return inodes


def broker_ready(host: str, number: int, start: str) -> Finding:
    """Ask a broker whether it takes messages; `start` is what starts it."""
    asking = http.client.HTTPConnection(host, number, timeout=_TIMEOUT_S)
    try:
        asking.request("GET", "/readyz")
        answer = asking.getresponse()
        said = answer.read(200).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        return change(f"no broker answers at {host}:{number}: {error}", start)
    finally:
        asking.close()
    if answer.status == http.client.OK:
        return ok(f"the broker at {host}:{number} accepts messages: {said}")
    return change(f"the broker at {host}:{number} accepts no messages: {said}", "its log says why; OPERATE.md")
