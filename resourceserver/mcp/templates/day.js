
// The answer of get_day.

const NAMES = {
  tracked_ms: "Tracked",
  productive_ms: "Productive",
  neutral_ms: "Neutral",
  distracted_ms: "Distracted",
  coding_ms: "Coding",
  focus_ms: "Focus",
  longest_focus_ms: "Longest focus",
  app_switches: "Switches of application",
  session_count: "Sessions",
  asleep_ms: "Asleep",
  recovery_score: "Recovery",
  meeting_ms: "Meetings",
  listened_ms: "Music",
  play_count: "Tracks played",
  commits: "Commits",
  pull_requests: "Pull requests",
  reviews: "Reviews",
  lines_added: "Lines added",
};

function nameOf(metric) {
  return NAMES[metric] ?? metric.replace(/_ms$/, "").replaceAll("_", " ");
}

function drawn(answer) {
  const totals = answer.totals ?? [];
  const sections = ["sleep", "meetings", "commits", "music"].map((name) => answer[name]);
  const all = [...totals, ...sections.flatMap((section) => section?.totals ?? [])];
  const times = totals.filter((each) => each.metric.endsWith("_ms") && typeof each.value === "number");
  const first = time(answer.first_activity_at, answer.tz);
  const last = time(answer.last_activity_at, answer.tz);
  const omitted = (answer.omitted ?? []).map((each) => `${each.section} (${each.scope})`);
  return [
    element("h1", {}, day(answer.date, { weekday: "long", day: "numeric", month: "long" })),
    notes(answer),
    first ? element("p", {}, `Active from ${first} to ${last}`) : null,
    times.length
      ? bars(
          "Time of the day by kind, beside the usual time",
          times.map((each) => ({
            name: nameOf(each.metric),
            text: each.value_text ?? duration(each.value),
            value: each.value,
            usual: each.normal,
          })),
        )
      : null,
    times.some((each) => typeof each.normal === "number") ? legend(["mark", usualWords(answer)]) : null,
    element("h2", {}, "Figures"),
    table(
      "The day beside the mean of the 28 days before",
      ["Measure", "Value"],
      [1],
      all.map((each) => [
        explained(nameOf(each.metric), each.phrase),
        each.value_text ?? each.value,
      ]),
    ),
    ...tops("Applications", answer.top_apps),
    ...tops("Categories", answer.top_categories),
    ...tops("Projects", answer.top_projects),
    ...meetings(answer.meetings?.events, answer.tz),
    ...goals(answer.goals),
    omitted.length
      ? element("p", { class: "quiet" }, `This assistant has no access to: ${omitted.join(", ")}`)
      : null,
  ];
}

function usualWords(answer) {
  return answer.normal_until ? `usual until ${answer.normal_until}` : "usual";
}

function tops(heading, rows) {
  if (!rows?.length) return [];
  return [
    element("h2", {}, heading),
    table(
      `${heading} with most time`,
      ["Name", "Time", "Share"],
      [1, 2],
      rows.map((row) => [row.name, row.total_text ?? duration(row.total_ms), percent(row.percent)]),
    ),
  ];
}

function meetings(rows, zone) {
  if (!rows?.length) return [];
  return [
    element("h2", {}, "Meetings"),
    table(
      "Events of calendars that were not cancelled",
      ["Title", "From", "To"],
      [1, 2],
      rows.map((row) => [
        row.title ?? "without a title",
        row.all_day ? "all day" : time(row.starts_at, zone),
        row.all_day ? "" : time(row.ends_at, zone),
      ]),
    ),
  ];
}

function goals(rows) {
  if (!rows?.length) return [];
  return [
    element("h2", {}, "Goals"),
    table(
      "Goals of the day, of its week and of its month",
      ["Goal", "So far", "Target", "State"],
      [1, 2],
      rows.map((row) => [row.title, row.value_text, row.target_text, row.status.replaceAll("_", " ")]),
    ),
  ];
}

start("day");
