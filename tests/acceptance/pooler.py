"""A connection pooler in transaction mode, as small as it can be: each transaction may be on another session.

After every transaction the session is wiped with DISCARD ALL, so whoever relies on anything that outlives one fails.
"""

import random
import select
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg

from dbanon.postgres import server

_STARTUP, _SECURE = 196608, (80877103, 80877104)  # protocol 3.0; requests for SSL and GSS
_TOLD = ("server_version", "client_encoding", "standard_conforming_strings", "integer_datetimes", "DateStyle")
_ENDS = b"QSF"  # messages that ask for an answer which ends in ReadyForQuery


class Session:
    """A session of the server, logged in by psycopg, then spoken to byte by byte."""

    def __init__(self, url: str) -> None:
        self.login = psycopg.connect(url, autocommit=True)
        self.socket = socket.socket(fileno=socket.dup(self.login.fileno()))
        self.socket.setblocking(True)

    def wipe(self) -> None:
        """Forget all that the last transaction left, settings and locks too."""
        self.socket.sendall(_make_message(b"Q", b"DISCARD ALL\0"))
        reader = Reader()
        while not any(kind == b"Z" for kind, _ in reader.messages(self.socket.recv(65536))):
            pass

    def close(self) -> None:
        self.socket.close()
        self.login.close()


class Reader:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._rest = b""

    def messages(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Return the messages that are whole now: kind and content."""
        self._rest += data
        found = []
        while len(self._rest) >= 5:
            (length,) = struct.unpack("!i", self._rest[1:5])
            if len(self._rest) <= length:
                break
            found.append((self._rest[:1], self._rest[5 : 1 + length]))
            self._rest = self._rest[1 + length :]
        return found


class Pooler:
    """Listens on a port of this machine, and has a few sessions for any number of clients."""

    def __init__(self, url: str, sessions: int) -> None:
        self.url = url
        self.sessions = sessions
        self.free = [Session(url) for _ in range(sessions)]
        info = self.free[0].login.info
        self.told = b"".join(_make_message(b"S", f"{name}\0{info.parameter_status(name)}\0".encode()) for name in _TOLD)
        self.lock = threading.Condition()
        self.transactions = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def own_url(self) -> str:
        words = {k: v for k, v in server.parse(self.url).items() if k in ("user", "dbname")}
        host, port = self.listener.getsockname()
        return server.format_uri({**words, "host": host, "port": str(port)})

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError, psycopg.Error):
            self._greet(client)
            while select.select([client], [], [])[0]:
                if client.recv(1, socket.MSG_PEEK) in (b"", b"X"):  # gone, or going
                    return
                self._transaction(client)

    def _greet(self, client: socket.socket) -> None:
        while True:
            length, code = struct.unpack("!ii", client.recv(8, socket.MSG_WAITALL))
            said = client.recv(length - 8, socket.MSG_WAITALL) if length > 8 else b""
            if code not in _SECURE:
                break
            client.sendall(b"N")
        if code != _STARTUP:
            raise OSError("a request to cancel, which is not passed on")
        if b"options" in said.split(b"\0")[::2]:  # PgBouncer's words
            refused = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0"
            client.sendall(_make_message(b"E", refused))
            raise OSError("a client with options of its own")
        key = struct.pack(
            "!ii", random.randrange(1, 2**31), random.randrange(2**31)
        )  # no session's: made up, as PgBouncer does
        client.sendall(
            _make_message(b"R", struct.pack("!i", 0)) + self.told + _make_message(b"K", key) + _make_message(b"Z", b"I")
        )

    def _transaction(self, client: socket.socket) -> None:
        with self.lock:
            self.lock.wait_for(lambda: self.free)
            session = self.free.pop(random.randrange(len(self.free)))
        try:
            whole = self._relay(client, session.socket)
            if whole:
                session.wipe()
            else:
                session.close()
                session = Session(self.url)
        finally:
            with self.lock:
                self.transactions += 1
                self.free.append(session)
                self.lock.notify()

    def _relay(self, client: socket.socket, session: socket.socket) -> bool:
        """Pass everything on until the transaction has ended; False if the client went away in the middle."""
        asked, from_client, from_server = 0, Reader(), Reader()
        while True:
            for ready in select.select([client, session], [], [])[0]:
                data = ready.recv(65536)
                if not data:
                    return False
                if ready is client:
                    messages = from_client.messages(data)
                    if any(kind == b"X" for kind, _ in messages):
                        return False
                    asked += sum(kind in _ENDS for kind, _ in messages)
                    session.sendall(data)
                    continue
                client.sendall(data)
                for kind, content in from_server.messages(data):
                    if kind == b"G":  # the server will not answer what was asked before it copies in
                        asked = 0
                    if kind == b"Z":
                        asked -= 1
                        if content == b"I" and asked <= 0:
                            return True

    def close(self) -> None:
        self.listener.close()
        with self.lock:  # a client that has just gone leaves its session in a moment
            self.lock.wait_for(lambda: len(self.free) == self.sessions, timeout=30)
            for session in self.free:
                session.close()


def _make_message(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack("!i", len(content) + 4) + content


@contextmanager
def run_pooler(url: str, sessions: int = 4) -> Iterator[Pooler]:
    """Have a pooler before a database for the length of the block."""
    made = Pooler(url, sessions)
    try:
        yield made
    finally:
        made.close()
