"""Five calls with a generated client; prints what came back, for the test to compare.

It runs where openapi-python-client has generated ``svc_client``.
"""

import json
import os
import sys
from datetime import UTC, date, datetime

from svc_client import AuthenticatedClient, Client
from svc_client.api.activity import app_usage, daily
from svc_client.api.ingest import ingest_app_sessions
from svc_client.api.profile import me
from svc_client.api.service import capabilities
from svc_client.models import IngestAppSessionsBody

client = AuthenticatedClient(base_url=os.environ["BASE_URL"], token=os.environ["TOKEN"])
day = date(2025, 6, 16)

described = capabilities.sync(client=Client(base_url=os.environ["BASE_URL"]))
written = ingest_app_sessions.sync(
    client=client,
    body=IngestAppSessionsBody.from_dict(
        {
            "events": [
                {
                    "started_at": "2025-06-16T09:00:00Z",
                    "duration_ms": 60_000,
                    "app": "Code",
                    "platform": "linux",
                },
                {
                    "started_at": "2025-06-16T09:00:00Z",
                    "ended_at": "2025-06-16T08:00:00Z",
                    "app": "Code",
                },
            ]
        }
    ),
)
usage = app_usage.sync(
    client=client,
    from_=datetime(2025, 6, 16, tzinfo=UTC),
    to=datetime(2025, 6, 17, tzinfo=UTC),
)
days = daily.sync(client=client, from_=day, to=day, tz="Europe/Berlin")
refused = me.sync_detailed(client=client)

json.dump(
    {
        "service": described.service,
        "accepted": written.accepted,
        "codes": [each.code.value for each in written.rejected],
        "apps": [[each.app, each.total_ms] for each in usage.data],
        "tracked_ms": days.totals.tracked_ms,
        "status": refused.status_code,
        "error": refused.parsed.error,
    },
    sys.stdout,
)
