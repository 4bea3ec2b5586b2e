// Five calls with the types that openapi-typescript generates; prints what came back, for the test to compare.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const client = createClient<paths>({
  baseUrl: process.env.BASE_URL,
  headers: { Authorization: `Bearer ${process.env.TOKEN}` },
});
const day = { from: "2025-06-16T00:00:00Z", to: "2025-06-17T00:00:00Z" };

const capabilities = await client.GET("/api/v1/capabilities");
const written = await client.POST("/api/v1/ingest/app-sessions", {
  body: {
    events: [
      { started_at: "2025-06-16T09:00:00Z", duration_ms: 60_000, app: "Code", platform: "linux" },
      { started_at: "2025-06-16T09:00:00Z", ended_at: "2025-06-16T08:00:00Z", app: "Code" },
    ],
  },
});
const usage = await client.GET("/api/v1/analytics/app-usage", { params: { query: day } });
const days = await client.GET("/api/v1/analytics/daily", {
  params: { query: { from: "2025-06-16", to: "2025-06-16", tz: "Europe/Berlin" } },
});
const me = await client.GET("/api/v1/me");

const codes: components["schemas"]["RejectionCode"][] = written.data!.rejected.map((each) => each.code);
console.log(
  JSON.stringify({
    service: capabilities.data!.service,
    accepted: written.data!.accepted,
    codes,
    apps: usage.data!.data.map((each) => [each.app, each.total_ms]),
    tracked_ms: days.data!.totals.tracked_ms,
    status: me.response.status,
    error: me.error!.error,
  }),
);
