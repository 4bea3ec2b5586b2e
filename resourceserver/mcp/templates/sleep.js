
// The answer of get_health: nights, and metrics by day.

const STAGES = [
  ["c1", "deep_ms", "deep"],
  ["c3", "rem_ms", "REM"],
  ["c4", "light_ms", "light"],
  ["c2", "awake_ms", "awake"],
];
const MOST_COLUMNS = 62;

function drawn(answer) {
  const nights = (answer.recovery ?? []).filter((each) => each.sleep || each.recovery).reverse();
  const metrics = answer.metrics ?? [];
  return [
    element("h1", {}, nights.length || !metrics.length ? "Sleep" : "Health"),
    notes(answer),
    ...(nights.length ? slept(nights, answer) : []),
    ...metrics.flatMap(measured),
    nights.length || metrics.length ? null : element("p", {}, "Nothing was measured."),
  ];
}

function slept(nights, answer) {
  const averages = answer.recovery_averages;
  const measuredNights = nights.filter((each) => each.sleep?.asleep_ms);
  const lengths = new Map(measuredNights.map((each) => [each, stageLengths(each.sleep)]));
  const stages = STAGES.filter(([, name]) => measuredNights.some((each) => lengths.get(each)[name]));
  const entries = measuredNights.map((each) => ({
    name: day(each.date, SHORT),
    parts: stages.length
      ? stages.map(([style, name]) => [style, lengths.get(each)[name]])
      : [["c1", each.sleep.asleep_ms]],
  }));
  return [
    averages?.asleep_ms
      ? element("p", { class: "figure" }, averages.asleep_text ?? duration(averages.asleep_ms))
      : null,
    averages?.asleep_ms ? element("p", { class: "quiet" }, "asleep in a night, on average") : null,
    entries.length ? columns("Sleep of each night by stage", entries, duration) : null,
    entries.length ? legend(...stages.map(([style, , text]) => [style, text])) : null,
    element("h2", {}, "Nights"),
    table(
      "By the day on which the night ended",
      ["Day", "Asleep", "Recovery"],
      [1, 2],
      [...nights].reverse().map((each) => [
        explained(day(each.date, SHORT_WITH_WEEKDAY), inBed(each.sleep, answer.tz)),
        asleep(each.sleep),
        percent(each.recovery?.score),
      ]),
    ),
  ];
}

/** The list of many nights leaves out light sleep, which is what the other stages leave of all sleep. */
function stageLengths(sleep) {
  const known = (sleep.deep_ms ?? 0) + (sleep.rem_ms ?? 0);
  return known && sleep.light_ms === undefined ? { ...sleep, light_ms: sleep.asleep_ms - known } : sleep;
}

function inBed(sleep, zone) {
  if (!sleep?.started_at) return "";
  return `in bed from ${time(sleep.started_at, zone)} to ${time(sleep.ended_at, zone)}`;
}

function asleep(sleep) {
  if (typeof sleep?.asleep_ms !== "number") return null;
  return sleep.asleep_text ?? duration(sleep.asleep_ms);
}

function measured(metric) {
  const points = (metric.series ?? []).slice(-MOST_COLUMNS);
  const unit = metric.unit && metric.unit !== "ms" && metric.unit !== "count" ? ` ${metric.unit}` : "";
  const isDuration = points.some((each) => each.value_text);
  const inWords = (value) => (isDuration ? duration(value) : number(value) + unit);
  const name = metric.metric.replace(/^health:/, "").replace(/_ms$/, "").replaceAll("_", " ");
  const mean = metric.summary?.daily_mean;
  return [
    element("h2", {}, name),
    typeof mean === "number" ? element("p", {}, `${inWords(mean)} a day on average; ${metric.phrase}`) : null,
    points.length
      ? columns(
          name,
          points.map((each) => ({ name: day(each.at, SHORT), parts: [["c1", each.value]] })),
          inWords,
        )
      : null,
    points.length
      ? table(
          `Values of ${name}`,
          ["From", "Value"],
          [1],
          [...points].reverse().map((each) => [
            day(each.at, SHORT_WITH_WEEKDAY),
            each.value_text ?? inWords(each.value),
          ]),
        )
      : null,
  ];
}

start("sleep");
