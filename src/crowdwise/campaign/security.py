"""Links, sessions, passwords and forms: who may do what, without a secret in any log or page.

| what | how |
|---|---|
| personal link | `worker name` and the number of the link, signed; a new link makes older ones invalid |
| ticket | says that a task was given to a worker; nobody can answer what they were not asked |
| manager's session | a random token in a cookie, of which the database has only the hash; ended by log out |
| password | scrypt with a salt; compared in constant time |
| form token | made of the session, so that another site cannot post in a visitor's name |

Signatures are HMAC-SHA256 with a key of the campaign, each over its own purpose, so that none can stand for another.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from functools import lru_cache

from crowdwise.labels.errors import InputError

__all__ = ["MOST_PASSWORD", "Signer", "check_token", "hash_password", "hash_token", "verify_password"]

SHORT = 16  # bytes of a ticket's signature
LONGEST_LINK = 1_500  # letters: a name of 200, each four bytes of UTF-8, and the signature
COST = {"n": 1 << 14, "r": 8, "p": 1}  # 16 MB and some 50 ms: a guess is dear, a login is not


MOST_PASSWORD = 1_000  # letters that the form to log in takes


def check_token(token: str, name: str) -> str:
    """A manager's token that can be sent in a header; `name` says where it stands."""
    if len(token) < 20:
        raise InputError(f"{name} has fewer than 20 letters. Use a long random one.")
    if token != token.strip() or not (token.isascii() and token.isprintable()):
        raise InputError(
            f"{name} has blanks around it, a line break or letters beyond ASCII, which no request can send. Use others."
        )
    return token


def hash_password(password: str) -> str:
    """A password as it may be stored: its scrypt hash and the salt."""
    if not 8 <= len(password) <= MOST_PASSWORD:
        said = "fewer than 8 letters" if len(password) < 8 else f"more than {MOST_PASSWORD:,} letters"
        raise InputError(f"The password has {said}. Choose another one.")
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in password):
        raise InputError("The password has a line break or the like in it, which nobody can type. Choose another one.")
    try:
        password.encode()
    except UnicodeEncodeError as error:
        raise InputError("The password is no UTF-8 text. Choose another one.") from error
    salt = secrets.token_bytes(16)
    digest = hashlib.scrypt(password.encode(), salt=salt, **COST)
    return f"scrypt${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


def verify_password(password: str, stored: str) -> bool:
    """Whether a password is the stored one; takes the same time for any."""
    try:
        _, salt, digest = stored.split("$")
        wanted = base64.b64decode(digest)
        found = hashlib.scrypt(password.encode("utf-8", "replace"), salt=base64.b64decode(salt), **COST)
    except ValueError:
        return False
    return hmac.compare_digest(found, wanted)


def hash_token(token: str) -> str:
    """The hash of a random token; it needs no salt, as nobody can guess it."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


class Signer:
    """Signs and checks what goes out to browsers.

    Parameters
    ----------
    secret
        The campaign's key, 32 random bytes in hexadecimal.
    """

    def __init__(self, secret: str) -> None:
        self._key = bytes.fromhex(secret)
        self._known_links = lru_cache(maxsize=16_384)(self._read_link)

    def _sign(self, purpose: str, text: str, size: int = 32) -> str:
        digest = hmac.digest(self._key, f"{purpose}\n{text}".encode("utf-8", "surrogatepass"), "sha256")
        return base64.urlsafe_b64encode(digest[:size]).rstrip(b"=").decode()

    def make_link(self, worker: str, number: int) -> str:
        """The token of a personal link."""
        text = f"{number}:{worker}"
        body = base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()
        return f"{body}.{self._sign('link', text)}"

    def read_link(self, token: str) -> tuple[str, int] | None:
        """Worker and number of a link; None if it was not made here."""
        return self._known_links(token) if len(token) <= LONGEST_LINK else None  # strangers must not fill the memory

    def _read_link(self, token: str) -> tuple[str, int] | None:
        body, _, signature = token.partition(".")
        try:
            text = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode()
        except ValueError:
            return None
        if not hmac.compare_digest(self._sign("link", text).encode(), signature.encode("utf-8", "replace")):
            return None
        number, _, worker = text.partition(":")
        return (worker, int(number)) if token == self.make_link(worker, int(number)) else None

    def make_ticket(self, worker: int, task: int) -> str:
        """Says that this worker was given this task."""
        return self._sign("ticket", f"{worker}:{task}", SHORT)

    def check_ticket(self, ticket: str, worker: int, task: int) -> bool:
        """Whether this worker was given this task."""
        return hmac.compare_digest(self.make_ticket(worker, task).encode(), ticket.encode("utf-8", "replace"))

    def make_form_token(self, session: str) -> str:
        """What a form of this session carries."""
        return self._sign("form", session)

    def check_form_token(self, token: str, session: str) -> bool:
        """Whether a form belongs to this session."""
        return hmac.compare_digest(self.make_form_token(session).encode(), token.encode("utf-8", "replace"))

    def sign_delivery(self, body: str) -> str:
        """Signature of a webhook's body."""
        return self._sign("webhook", body)
