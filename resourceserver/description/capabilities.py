"""``GET /api/v1/capabilities``: the features of this deployment, from its configuration alone.

The answer needs no credential and no database.
"""

from typing import Final, Literal

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from resourceserver.api.bodies import Body, Count, Milliseconds
from resourceserver.api.operation import SERVICE, Operation
from resourceserver.endpoints import ENDPOINTS
from resourceserver.export.formats import FORMATS
from resourceserver.ingest import events
from resourceserver.ingest import route as ingest
from resourceserver.mcp import protocol, rate_limit, route
from resourceserver.uploads import route as uploads
from shared import API_VERSION, connections
from shared.scopes import SCOPES
from shared.settings import Deployment, Settings

ACCESS_TOKEN_LIFETIME_MS: Final = 3_600_000
"""The lifetime of applications' tokens in the specification."""


class IngestFeatures(Body):
    """Which streams accept events."""

    app_sessions: bool
    """Whether app sessions are accepted."""
    coding_sessions: bool
    """Whether coding sessions are accepted."""
    health: bool
    """Whether health events are accepted."""
    heartbeats: bool
    """Whether heartbeats are accepted."""


class MCPFeature(Body):
    """The Model Context Protocol endpoint."""

    enabled: bool
    """Whether the endpoint exists."""
    path: str
    protocol_versions: list[str]
    """The revisions of the protocol, newest first."""


class OAuthFeature(Body):
    """How applications get access."""

    enabled: bool
    """Whether applications can be granted access."""
    issuer: str
    """The authorization server."""
    dynamic_registration: bool
    """Whether applications may register themselves (RFC 7591)."""


class ExportFeature(Body):
    """The export of all data."""

    enabled: bool
    formats: list[str]
    """The values of ``format``."""


class UploadsFeature(Body):
    """Uploads of files that people have of other services."""

    enabled: bool
    """Whether files can be uploaded."""
    path: str
    """Where uploads are created, with the ticket of a person."""
    max_file_bytes: Count
    """The size of the largest file."""
    max_piece_bytes: Count
    """The size of the largest piece."""


class Features(Body):
    """Which features this deployment has."""

    ingest: IngestFeatures
    """Streams of trackers."""
    mcp: MCPFeature
    """The endpoint for assistants."""
    oauth: OAuthFeature
    """Access of applications."""
    export: ExportFeature
    """The export."""
    uploads: UploadsFeature
    """Uploads of files."""
    correlation: bool
    """Whether metrics can be correlated."""
    summaries: bool
    """Whether summaries of days are stored."""
    insights: bool
    """Whether this deployment writes insights; the endpoint exists in any case."""
    transcription: bool
    """Whether recordings are transcribed here."""
    billing: bool
    """Whether there are paid plans."""
    organizations: bool
    """Whether people can belong to organizations."""


class IntegrationOffer(Body):
    """A service or an application that can be connected."""

    provider: str
    kind: str
    """The kind of its data, such as ``code``."""
    configured: bool
    """Whether people can connect it here: the operator switches applications that send on, and sets the key
    to which secrets of services are sealed."""


class RateLimit(Body):
    """How many requests the tokens of one person together may send to one address."""

    path: str
    requests: Count
    """The most requests that each process of the server answers in a window; further ones get 429."""
    window_ms: Milliseconds
    """The length of a window, in milliseconds."""


class Limits(Body):
    """Limits for each client."""

    max_events_per_batch: Count
    access_token_lifetime_ms: Milliseconds
    rate_limit: RateLimit | None
    """The only rate limit; null if there is none. Other addresses have none."""


class CapabilitiesBody(Body):
    """Which optional features this deployment has."""

    service: Literal["personal-activity-analytics"]
    api_version: str
    deployment: Deployment
    features: Features
    integrations: list[IntegrationOffer]
    limits: Limits


CAPABILITIES: Final = Operation(
    name="capabilities",
    path="/api/v1/capabilities",
    tag=SERVICE,
    summary="Which optional features this deployment has.",
    answers={200: CapabilitiesBody},
)


def of(chosen: Settings) -> CapabilitiesBody:
    """Return the capabilities of a deployment with the settings ``chosen``."""
    paths = {endpoint.path for endpoint in ENDPOINTS}
    open_streams = {stream.name for stream in ingest.STREAMS}
    streams = [scope.removeprefix("ingest:") for scope in SCOPES if scope.startswith("ingest:")]
    return CapabilitiesBody(
        service="personal-activity-analytics",
        api_version=API_VERSION,
        deployment=chosen.deployment,
        features=Features(
            ingest=IngestFeatures(**{stream: stream in open_streams for stream in streams}),
            mcp=MCPFeature(
                enabled=True, path=route.PATH, protocol_versions=list(protocol.REVISIONS)
            ),
            oauth=OAuthFeature(enabled=True, issuer=chosen.auth_url, dynamic_registration=True),
            export=ExportFeature(enabled=True, formats=list(FORMATS)),
            uploads=UploadsFeature(
                enabled=chosen.upload_dir is not None,
                path=uploads.PATH,
                max_file_bytes=chosen.upload_mib * 2**20,
                max_piece_bytes=uploads.LARGEST_PIECE,
            ),
            correlation="/api/v1/account/correlation" in paths,
            summaries="/api/v1/account/summaries" in paths,
            insights=False,
            transcription=False,
            billing=False,
            organizations="/api/v1/orgs" in paths,
        ),
        integrations=[
            IntegrationOffer(
                provider=kind.name,
                kind=kind.data,
                configured=kind.is_offered(
                    chosen.receivers, has_sealing_key=chosen.sealing_public_key is not None
                ),
            )
            for kind in connections.KINDS.values()
        ],
        limits=Limits(
            max_events_per_batch=events.MAX_EVENTS,
            access_token_lifetime_ms=ACCESS_TOKEN_LIFETIME_MS,
            rate_limit=_rate_limit(chosen),
        ),
    )


def _rate_limit(chosen: Settings) -> RateLimit | None:
    if chosen.mcp_calls_per_minute == 0:
        return None
    return RateLimit(
        path=route.PATH,
        requests=chosen.mcp_calls_per_minute,
        window_ms=round(rate_limit.WINDOW_S * 1000),
    )


def routes(chosen: Settings) -> list[Route]:
    """Return the route of the capabilities, whose answer is constant while the server runs."""
    body = of(chosen).model_dump_json().encode()

    async def capabilities(_: Request) -> Response:
        headers = {"Cache-Control": "public, max-age=300"}
        return Response(body, headers=headers, media_type="application/json")

    return [Route(CAPABILITIES.path, capabilities, name=CAPABILITIES.name)]
