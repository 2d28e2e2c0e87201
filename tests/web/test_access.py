"""Who may look: the Host header, the token and the method decide before anything is read (docs/security.md)."""

from __future__ import annotations

import asyncio
import base64
import hashlib

import pytest

from softib.web.access import Access, is_loopback, new_token, policy_of

TOKEN = "a-token-of-some-length"
LOCAL = frozenset({"localhost", "127.0.0.1"})


def asked(access: Access, query: str = "", method: str = "GET", **headers: str) -> tuple[int, dict[bytes, bytes]]:
    scope = {
        "type": "http",
        "method": method,
        "query_string": query.encode(),
        "headers": [
            (k.replace("_", "-").encode(), v.encode()) for k, v in {"host": "localhost:8470", **headers}.items()
        ],
    }
    sent: list[dict] = []

    async def send(message):
        sent.append(message)

    asyncio.run(access(scope, None, send))  # type: ignore[arg-type]
    return sent[0]["status"], dict(sent[0]["headers"])


async def inner(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"secret"})


def test_a_foreign_name_for_loopback_is_refused():
    access = Access(inner, None, LOCAL)
    assert asked(access)[0] == 200
    assert asked(access, host="127.0.0.1:8470")[0] == 200
    for name in ("evil.example:8470", "", "localhost.evil.example", "[::2]:80"):
        assert asked(access, host=name)[0] == 421, name


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_changed(method):
    assert asked(Access(inner, None, LOCAL), method=method)[0] == 405


def test_head_is_get_without_its_body():
    """RFC 9110 9.3.2; the route behind knows GET alone."""
    sent: list[dict] = []

    async def route(scope, receive, send):
        await send({"type": "http.response.start", "status": 200 if scope["method"] == "GET" else 405, "headers": []})
        await send({"type": "http.response.body", "body": b"page"})

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "HEAD", "query_string": b"", "headers": [(b"host", b"localhost")]}
    asyncio.run(Access(route, None, LOCAL)(scope, None, send))  # type: ignore[arg-type]
    assert sent[0]["status"] == 200 and sent[1]["body"] == b""
    assert asked(Access(route, TOKEN, LOCAL), method="HEAD")[0] == 401


def test_without_the_token_nobody_gets_in():
    access = Access(inner, TOKEN, frozenset())
    for headers in (
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {TOKEN}"},
        {"cookie": "softib_token=x"},
    ):
        assert asked(access, **headers)[0] == 401
    assert asked(access, query="token=")[0] == 401
    assert asked(access, authorization=f"Bearer {TOKEN}")[0] == 200
    assert asked(access, cookie=f"softib_token={TOKEN}")[0] == 200


def test_a_token_in_the_address_becomes_a_cookie_that_scripts_do_not_see():
    status, headers = asked(Access(inner, TOKEN, frozenset()), query=f"token={TOKEN}")
    assert status == 200
    assert b"HttpOnly" in headers[b"set-cookie"] and b"SameSite=Strict" in headers[b"set-cookie"]
    assert headers[b"referrer-policy"] == b"no-referrer"


def test_every_answer_forbids_what_comes_from_outside():
    for access in (Access(inner, None, LOCAL), Access(inner, TOKEN, LOCAL)):
        _, headers = asked(access)
        assert b"default-src 'self'" in headers[b"content-security-policy"]


def test_a_page_with_scripts_inside_runs_those_alone():
    """Known by their SHA-256 (CSP level 2); what a text of the fabric might smuggle in is another one."""
    policy = policy_of(
        '<script type="application/json">{}</script><script>one()</script><p>x</p><script>\ntwo()\n</script>'
    )
    assert policy.count("sha256-") == 2
    script = next(part for part in policy.split(";") if "script-src" in part)
    assert "unsafe" not in script and "default-src 'none'" in policy and "frame-ancestors 'self'" in policy
    digest = base64.b64encode(hashlib.sha256(b"one()").digest()).decode()
    assert digest in policy and policy_of("<p>no script</p>").count("script-src 'none'") == 1


def test_an_answer_keeps_a_policy_of_its_own():
    async def own(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-security-policy", b"mine")]})
        await send({"type": "http.response.body", "body": b""})

    _, headers = asked(Access(own, None, LOCAL))
    assert headers[b"content-security-policy"] == b"mine" and headers[b"x-content-type-options"] == b"nosniff"


def test_loopback_is_known():
    assert all(map(is_loopback, ("127.0.0.1", "127.3.2.1", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.org")))
    assert len({new_token() for _ in range(50)}) == 50 and len(new_token()) > 40
