"""A way to a server on which the next answer is lost: the command is done, the connection breaks before its answer."""

from __future__ import annotations

import socket
import threading
from types import TracebackType

SIZE = 1 << 16


class LossyWay:
    """A port that leads to another one; after `lose_next`, one answer never comes through."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._armed = False
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.lost = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_next(self) -> None:
        """Lose the next answer, unless it says that a script has to be sent in full."""
        self._armed = True

    def __enter__(self) -> LossyWay:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        try:
            with near, socket.create_connection(("127.0.0.1", self._to)) as far:
                threading.Thread(target=self._answers, args=(far, near), daemon=True).start()
                while request := near.recv(SIZE):
                    far.sendall(request)
        except OSError:
            return

    def _answers(self, far: socket.socket, near: socket.socket) -> None:
        """Pass answers on; redis-py sends one command at a time, so the next answer is the one to lose."""
        try:
            while answer := far.recv(SIZE):
                if self._armed and not answer.startswith(b"-NOSCRIPT"):
                    self._armed = False
                    self.lost += 1
                    near.shutdown(socket.SHUT_RDWR)
                    return
                near.sendall(answer)
        except OSError:
            return
