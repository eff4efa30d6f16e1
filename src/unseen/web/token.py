"""A token for servers that others can reach: without it nothing is answered.

Programs send `Authorization: Bearer TOKEN`. A person opens the page once with `?token=TOKEN`; a cookie remembers it.
"""

from __future__ import annotations

import hashlib
import secrets
import string
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from unseen.errors import UnseenError

COOKIE = "unseen_token"
SHORTEST = 8
_ALLOWED = set(string.ascii_letters + string.digits + "-._~")


def check_token(token: str | None) -> str | None:
    """The token, if it can be sent in a header and in an address, and is not guessed at once."""
    if token is not None and (len(token) < SHORTEST or not set(token) <= _ALLOWED):
        raise UnseenError(
            f"the token must have at least {SHORTEST} characters, and only letters, digits and - . _ ~: "
            "`openssl rand -hex 16` makes one"
        )
    return token


class TokenGuard:
    """ASGI middleware: lets those in who know the token."""

    def __init__(self, app: ASGIApp, token: str | None):
        self.app, self.token = app, token
        self.cookie = hashlib.sha256(f"unseen {token}".encode()).hexdigest()  # the token itself is stored nowhere

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.token is None or scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        if self._knows(headers):
            return await self.app(scope, receive, send)
        await self._answer(scope)(scope, receive, send)

    def _knows(self, headers: Headers) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return _same(given.strip(), self.token)
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        return COOKIE in cookies and _same(cookies[COOKIE].value, self.cookie)

    def _answer(self, scope: Scope) -> Response:
        """The page itself, once its address had the token; else what is missing."""
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["method"] == "GET" and _same(given, self.token):
            answer: Response = RedirectResponse("/" + scope["path"].lstrip("/"), 303)  # without the token
            answer.set_cookie(COOKIE, self.cookie, httponly=True, samesite="strict", path="/")
            return answer
        what = "Open the page with ?token=TOKEN at the end of its address, or send `Authorization: Bearer TOKEN`."
        refusal = JSONResponse({"error": f"This server needs its token. {what}"}, 401)
        refusal.headers["www-authenticate"] = "Bearer"
        return refusal


def _same(given: str, wanted: str | None) -> bool:
    return wanted is not None and secrets.compare_digest(given.encode(), wanted.encode())
