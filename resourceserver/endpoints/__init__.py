"""Every read endpoint of the service, in the order in which the description lists them."""

from typing import Final

from resourceserver.api.endpoint import Endpoint
from resourceserver.endpoints import (
    activity,
    attention,
    baseline,
    code,
    coding,
    content,
    correlation,
    devices,
    goals,
    health,
    hours,
    location,
    meetings,
    music,
    normal,
    profile,
    sessions,
    sleep,
    stretches,
    summaries,
    trend,
)

ENDPOINTS: Final[list[Endpoint]] = [
    *activity.ENDPOINTS,
    *coding.ENDPOINTS,
    *hours.ENDPOINTS,
    *attention.ENDPOINTS,
    *normal.ENDPOINTS,
    *stretches.ENDPOINTS,
    *sessions.ENDPOINTS,
    *devices.ENDPOINTS,
    *goals.ENDPOINTS,
    *correlation.ENDPOINTS,
    *trend.ENDPOINTS,
    *summaries.ENDPOINTS,
    *code.ENDPOINTS,
    *health.ENDPOINTS,
    *sleep.ENDPOINTS,
    *baseline.ENDPOINTS,
    *music.ENDPOINTS,
    *location.ENDPOINTS,
    *content.ENDPOINTS,
    *meetings.ENDPOINTS,
    *profile.ENDPOINTS,
]
