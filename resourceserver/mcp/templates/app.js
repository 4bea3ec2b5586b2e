// What every template has: the messages of MCP Apps, elements, and charts.
//
// Text of an answer reaches the page as text nodes alone. Titles and names in it may hold anything.
"use strict";

const PROTOCOL = "2026-01-26";
const main = document.getElementById("main");
const waiting = new Map();
let lastId = 0;

// Messages: JSON-RPC with the window that embeds this one. They hold nothing of the answer, so the unknown
// origin of a host may read them.

function post(message) {
  window.parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
}

function request(method, params) {
  const id = ++lastId;
  post({ id, method, params });
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

function receive(message) {
  if (message.method === undefined) {
    const { resolve, reject } = waiting.get(message.id) ?? {};
    waiting.delete(message.id);
    if (resolve) message.error ? reject(message.error) : resolve(message.result);
    return;
  }
  const params = message.params ?? {};
  if (message.method === "ui/notifications/tool-result") show(params);
  if (message.method === "ui/notifications/tool-cancelled") say("The call was cancelled.");
  if (message.method === "ui/notifications/host-context-changed") adopt(params);
  if (message.id === undefined) return;
  const known = ["ping", "ui/resource-teardown"].includes(message.method);
  const error = { code: -32601, message: "there is no such method" };
  post(known ? { id: message.id, result: {} } : { id: message.id, error });
}

/** Adopt the host's theme: light or dark, and values of the style variables that the protocol has. */
function adopt(context) {
  const style = document.documentElement.style;
  if (context.theme === "light" || context.theme === "dark") style.colorScheme = context.theme;
  for (const [name, value] of Object.entries(context.styles?.variables ?? {})) {
    if (/^--[a-z0-9-]+$/.test(name) && typeof value === "string") style.setProperty(name, value);
  }
}

function reportHeight() {
  const height = Math.ceil(document.documentElement.getBoundingClientRect().height);
  post({ method: "ui/notifications/size-changed", params: { height } });
}

async function start(name) {
  window.addEventListener("message", (event) => {
    if (event.source === window.parent && event.data?.jsonrpc === "2.0") receive(event.data);
  });
  const appInfo = { name: `svc-${name}`, version: "1.0.0" };
  const appCapabilities = { availableDisplayModes: ["inline"] };
  const params = { appInfo, appCapabilities, protocolVersion: PROTOCOL };
  const result = await request("ui/initialize", params);
  adopt(result.hostContext ?? {});
  post({ method: "ui/notifications/initialized", params: {} });
  new ResizeObserver(reportHeight).observe(document.documentElement);
}

/** Show the result of a tool: the picture of its answer, or its text where there is no picture for it. */
function show(result) {
  const texts = (result.content ?? []).filter((each) => each.type === "text");
  const text = texts.map((each) => each.text).join("\n");
  if (result.isError) return say(text || "The call failed.");
  try {
    main.replaceChildren(...drawn(result.structuredContent ?? JSON.parse(text)).filter(Boolean));
  } catch {
    say(text || "The answer is empty.");
  }
}

function say(text) {
  main.replaceChildren(element("p", {}, text));
}

// Elements

function element(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function svg(name, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.filter((each) => each !== null && each !== undefined).map(asChild));
  return node;
}

function asChild(child) {
  return child instanceof Node ? child : String(child);
}

/** A table: `columns` are headings, `numbers` the indexes of columns with numbers, each row begins with its name. */
function table(caption, columns, numbers, rows) {
  const aligned = (index) => (numbers.includes(index) ? { class: "number" } : {});
  const heads = columns.map((each, n) => element("th", { scope: "col", ...aligned(n) }, each));
  const body = rows.map((row) =>
    element(
      "tr",
      {},
      ...row.map((each, n) =>
        n === 0
          ? element("th", { scope: "row" }, each)
          : element("td", aligned(n), each ?? "–"),
      ),
    ),
  );
  const whole = element(
    "table",
    {},
    element("caption", {}, caption),
    element("thead", {}, element("tr", {}, ...heads)),
    element("tbody", {}, ...body),
  );
  return element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption }, whole);
}

function legend(...entries) {
  return element(
    "ul",
    { class: "legend", "aria-hidden": "true" },
    ...entries.map(([style, text]) => element("li", {}, element("span", { class: style }), text)),
  );
}

// Charts. Their coordinates are percentages of the width, so that text keeps its size at every width. What they
// show is in the table below them too, so a reader of the screen gets their name alone.

function picture(label, height, ...children) {
  return svg("svg", { width: "100%", height, role: "img", "aria-label": label }, ...children);
}

/** Bars that lie: rows of `{name, text, value, usual}`, where `usual` is marked if there is one. */
function bars(label, rows) {
  const most = Math.max(1, ...rows.flatMap((row) => [row.value ?? 0, row.usual ?? 0]));
  const share = (value) => `${(100 * value) / most}%`;
  const parts = rows.flatMap((row, n) => {
    const top = n * 40;
    const usual = row.usual;
    return [
      // A nested picture cuts a long name before it reaches the value.
      svg(
        "svg",
        { x: 0, y: top, width: "66%", height: 22, overflow: "hidden", style: "overflow: hidden" },
        svg("text", { x: 0, y: 16 }, row.name),
      ),
      svg("text", { x: "100%", y: top + 16, "text-anchor": "end" }, row.text),
      svg("rect", { class: "track", x: 0, y: top + 22, width: "100%", height: 8, rx: 2 }),
      svg("rect", { class: "c1", x: 0, y: top + 22, width: share(row.value ?? 0), height: 8, rx: 2 }),
      usual === null || usual === undefined
        ? null
        : svg("rect", { class: "usual", x: share(usual), y: top + 20, width: 3, height: 12 }),
    ];
  });
  return picture(label, rows.length * 40, ...parts);
}

/** Columns that stand: entries of `{name, parts}`, where a part is `[style, value]`; `scale` names the highest. */
function columns(label, entries, scale) {
  const height = 140;
  const total = (entry) => entry.parts.reduce((sum, [, value]) => sum + (value ?? 0), 0);
  const most = Math.max(...entries.map(total)) || 1;
  const width = 100 / entries.length;
  const every = Math.ceil(entries.length / 5);
  const drawnColumns = entries.flatMap((entry, n) => {
    let bottom = 24 + height;
    const stack = entry.parts.map(([style, value]) => {
      const tall = ((value ?? 0) / most) * height;
      bottom -= tall;
      const place = { x: `${(n + 0.12) * width}%`, y: bottom, width: `${width * 0.76}%`, height: tall };
      return svg("rect", { class: style, ...place });
    });
    const isNamed = n % every === 0;
    const at = { x: `${(n + 0.5) * width}%`, y: height + 42, "text-anchor": "middle" };
    return [...stack, isNamed ? svg("text", { class: "quiet", ...at }, entry.name) : null];
  });
  const line = (y) => svg("line", { class: "rule", x1: 0, x2: "100%", y1: y, y2: y });
  return picture(
    label,
    height + 48,
    svg("text", { class: "quiet", x: 0, y: 14 }, scale(most)),
    line(24),
    ...drawnColumns,
    line(24 + height),
  );
}

// Words

/** The name of a row, with more about it on a line below. */
function explained(name, more) {
  return element("span", {}, name, " ", element("small", {}, more));
}

function duration(ms) {
  const minutes = Math.round(ms / 60000);
  if (minutes < 60) return `${minutes} min`;
  const rest = minutes % 60;
  return `${Math.floor(minutes / 60)} h${rest ? ` ${rest} min` : ""}`;
}

function number(value) {
  return new Intl.NumberFormat("en", { maximumFractionDigits: 2 }).format(value);
}

function percent(value) {
  return value === null || value === undefined ? null : `${number(value)} %`;
}

/** A calendar day in words; `parts` are options of Intl.DateTimeFormat. */
function day(text, parts = { weekday: "long", day: "numeric", month: "long", year: "numeric" }) {
  if (!/^\d{4}-\d\d-\d\d$/.test(text)) return text;
  return new Intl.DateTimeFormat("en-GB", { ...parts, timeZone: "UTC" }).format(new Date(text));
}

const SHORT = { day: "numeric", month: "short" };
const SHORT_WITH_WEEKDAY = { weekday: "short", day: "numeric", month: "short" };

function time(instant, zone) {
  if (!instant) return null;
  const parts = { timeZone: zone, hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  return new Intl.DateTimeFormat("en-GB", parts).format(new Date(instant));
}

/** What to know of an answer as a whole: its days and zone, days without data, and rows that were left out. */
function notes(answer) {
  const { from, to } = answer.range;
  const withYear = (text) => day(text, { ...SHORT, year: "numeric" });
  const days = from === to ? withYear(from) : `${day(from, SHORT)} to ${withYear(to)}`;
  const gaps = (answer.data_gaps ?? []).reduce((sum, gap) => sum + gap.days, 0);
  const parts = [
    `${days}, in ${answer.tz}`,
    gaps ? `no data of ${gaps} ${gaps === 1 ? "day" : "days"}` : null,
    answer.truncated ? "not all rows are shown" : null,
  ];
  return element("p", { class: "quiet" }, parts.filter(Boolean).join(" · "));
}
