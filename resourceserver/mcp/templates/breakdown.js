
// The answer of get_time_breakdown.

const MOST_BARS = 20;
const OF_TIME = ["day", "week", "month", "weekday", "hour"];

function drawn(answer) {
  const rows = answer.data ?? [];
  const keys = answer.group_by ?? Object.keys(rows[0]?.by ?? {});
  const other = answer.other?.rows ? [[`${answer.other.rows} more`, answer.other]] : [];
  const named = rows.map((row) => [keys.map((key) => namedValue(key, row.by[key])).join(" · "), row]);
  const total = answer.totals;
  return [
    element("h1", {}, `Time by ${keys.join(" and ")}`),
    notes(answer),
    total ? element("p", { class: "figure" }, total.total_text ?? duration(total.total_ms)) : null,
    rows.length === 0 ? element("p", {}, "No time was recorded.") : chart(keys, named),
    element("h2", {}, "Rows"),
    table(
      `Time by ${keys.join(" and ")}`,
      [capital(keys.join(" · ")), "Time", "Share"],
      [1, 2],
      [...named, ...other].map(([name, row]) => [name, ...amount(row)]),
    ),
  ];
}

function amount(row) {
  return [row.total_text ?? duration(row.total_ms), percent(row.percent)];
}

function namedValue(key, value) {
  if (value === null || value === undefined) return "none";
  if (key === "day" || key === "week") return day(value, SHORT_WITH_WEEKDAY);
  if (key === "hour") return `${String(value).padStart(2, "0").slice(0, 2)}:00`;
  return value;
}

function chart(keys, named) {
  const label = `Time by ${keys.join(" and ")}`;
  if (keys.length === 1 && OF_TIME.includes(keys[0])) {
    const entries = named.map(([name, row]) => ({
      name: keys[0] === "day" || keys[0] === "week" ? day(row.by[keys[0]], SHORT) : name,
      parts: [["c1", row.total_ms]],
    }));
    return columns(label, entries, duration);
  }
  const shown = named.slice(0, MOST_BARS).map(([name, row]) => ({
    name,
    text: amount(row)[0],
    value: row.total_ms,
  }));
  return bars(label, shown);
}

function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}

start("breakdown");
