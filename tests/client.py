"""Starlette's test client, with one change of threads a request.

Starlette's own takes eight, because it hands the parts of an answer over one by one, and a request takes four
times as long with it. Nearly all tests need whole answers.
"""

import ssl
from typing import Any, Final

import httpx2
from starlette.testclient import TestClient
from starlette.types import ASGIApp

NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients that speak plain HTTP. Otherwise each reads all certificates of the system, for 25 ms."""


class AppClient(TestClient):
    """Calls an application that runs in a thread of its own; only ``stream`` gives an answer in parts."""

    def __init__(
        self,
        app: ASGIApp,
        base_url: str = "http://testserver",
        *,
        raise_server_exceptions: bool = True,
        follow_redirects: bool = True,
        headers: dict[str, str] | None = None,
        client: tuple[str, int] = ("testclient", 50000),
    ) -> None:
        """Take the arguments of Starlette's client."""
        super().__init__(
            app,
            base_url,
            raise_server_exceptions=raise_server_exceptions,
            follow_redirects=follow_redirects,
            headers=headers,
            client=client,
        )
        whole = httpx2.ASGITransport(
            self.app, raise_app_exceptions=raise_server_exceptions, client=client
        )
        self._transport = _Whole(self, whole, self._transport)

    def send(
        self, request: httpx2.Request, *, stream: bool = False, **options: Any
    ) -> httpx2.Response:
        """Send a request, and note for the transport whether its answer is wanted in parts."""
        request.extensions["in parts"] = stream
        return super().send(request, stream=stream, **options)


class _Whole(httpx2.BaseTransport):
    """Reads whole answers at once, and leaves requests and answers in parts to Starlette's transport."""

    def __init__(
        self, client: AppClient, whole: httpx2.ASGITransport, in_parts: httpx2.BaseTransport
    ) -> None:
        self.client = client
        self.whole = whole
        self.in_parts = in_parts

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        portal = self.client.portal
        is_whole = isinstance(request.stream, httpx2.ByteStream)
        if portal is None or not is_whole or request.extensions["in parts"]:
            return self.in_parts.handle_request(request)
        return portal.call(self._ask, request)

    async def _ask(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self.whole.handle_async_request(request)
        content = b"".join([part async for part in answer.aiter_raw()])
        return httpx2.Response(
            answer.status_code,
            headers=answer.headers,
            stream=httpx2.ByteStream(content),
            request=request,
        )

    def close(self) -> None:
        self.in_parts.close()
