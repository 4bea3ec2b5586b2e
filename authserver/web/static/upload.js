// Uploads of files: in pieces, straight to the resource server, one file after the other. What is there already is
// looked up before each attempt, so an upload goes on after a lost connection, and after a reload when the same file
// is chosen again. Tickets stay in memory; the server gives another one for an upload that has begun.

const LARGEST_PIECE = 8 * 1024 * 1024;
const SMALLEST_PIECE = 256 * 1024;
const MOST_FAILURES = 40;
const LONGEST_PAUSE_MS = 30_000;
const REFRESH_MS = 2_000;
const LONGEST_REFRESH_MS = 15_000;
const MESSAGES = {
  storage_full: "The disk of this service is full. Try again later.",
  storage_unavailable: "This service cannot receive files at the moment. Try again later.",
};
const UNREADABLE = "This browser cannot read the file any more. Choose it again.";
const LOST = "The connection was lost for too long. Choose the file again to continue where it stopped.";
const SIGNED_OUT = "You are signed out. Sign in again, then choose the file again.";
const FAILED = "The upload did not work. Try again.";

// A failure after which the file is not tried again; the message is for the person.
class Refused extends Error {}

// The sign-in is too old for a ticket.
class OldSignIn extends Error {}

const form = document.querySelector("[data-upload]");
const status = document.querySelector("[data-status]");
const queue = document.querySelector("[data-queue]");
const oldSignIn = document.querySelector("[data-old-sign-in]");
let isRunning = false;

function sizeOf(bytes) {
  const units = ["bytes", "kB", "MB", "GB"];
  const power = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), 3);
  return `${(bytes / 1000 ** power).toFixed(power && 1)} ${units[power]}`;
}

function base64(text) {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}

// Waits longer after each failure, and no longer than until the browser is online again.
function pause(failures, answer) {
  const wanted = Number(answer?.headers.get("Retry-After")) * 1000 || 0;
  const ms = Math.min(Math.max(wanted, 500 * 2 ** Math.min(failures, 10)), LONGEST_PAUSE_MS);
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    addEventListener("online", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

// Returns why an answer ends an upload; undefined if another attempt may succeed.
async function refusal(answer) {
  const { error, message } = await answer.json().catch(() => ({}));
  const isPassing = [409, 423, 429].includes(answer.status) || answer.status >= 500;
  if (error in MESSAGES || !isPassing) {
    return new Refused(MESSAGES[error] ?? message ?? FAILED);
  }
}

// Returns a ticket for a file, and the address of its upload if it has begun.
async function requestTicket(file, format) {
  const answer = await fetch(form.dataset.tickets, {
    method: "POST",
    redirect: "manual",
    body: new URLSearchParams({ csrf: form.elements.csrf.value, name: file.name, length: file.size, format }),
  });
  if (answer.type === "opaqueredirect") {
    throw new Refused(SIGNED_OUT);
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    throw body.is_old ? new OldSignIn() : new Refused(body.problem ?? FAILED);
  }
  return body;
}

// Returns the format that was chosen, with the name of a profile after a colon if one was written.
function chosenFormat() {
  const { format, profile } = form.elements;
  const name = profile.value.trim();
  return name ? `${format.value || profile.dataset.format}:${name}` : format.value;
}

// One file on its way: each method is one request, which may fail without harm.
class Upload {
  constructor(file, format, { ticket, location }) {
    this.file = file;
    this.format = format;
    this.location = location;
    this.headers = { Authorization: `Bearer ${ticket}`, "Tus-Resumable": "1.0.0" };
    this.offset = null;
    this.piece = Math.min(Math.max(Math.ceil(file.size / 100), SMALLEST_PIECE), LARGEST_PIECE);
  }

  async create() {
    const metadata = [`filename ${base64(this.file.name)}`];
    if (this.format) {
      metadata.push(`format ${base64(this.format)}`);
    }
    const answer = await fetch(form.dataset.upload, {
      method: "POST",
      headers: { ...this.headers, "Upload-Length": this.file.size, "Upload-Metadata": metadata.join(",") },
    });
    const location = answer.headers.get("Location");
    // An upload that exists was created by an attempt whose answer was lost.
    if (location && (answer.ok || answer.status === 409)) {
      this.location = new URL(location, form.dataset.upload).href;
      this.offset = answer.ok ? 0 : null;
    }
    return answer;
  }

  async look() {
    return this.note(await fetch(this.location, { method: "HEAD", headers: this.headers }));
  }

  async send() {
    const start = this.offset;
    this.offset = null;
    const body = await this.file.slice(start, start + this.piece).arrayBuffer().catch(() => {
      throw new Refused(UNREADABLE);
    });
    return this.note(
      await fetch(this.location, {
        method: "PATCH",
        headers: { ...this.headers, "Upload-Offset": start, "Content-Type": "application/offset+octet-stream" },
        body,
      }),
    );
  }

  note(answer) {
    const offset = answer.headers.get("Upload-Offset");
    // 410 with an offset: everything has arrived, and the answer to the last piece was lost.
    if (offset !== null && (answer.ok || answer.status === 410)) {
      this.offset = Number(offset);
    }
    return answer;
  }

  next() {
    if (!this.location) {
      return this.create();
    }
    return this.offset === null ? this.look() : this.send();
  }
}

async function upload(file, format, progress) {
  const current = new Upload(file, format, await requestTicket(file, format));
  let sent = -1;
  for (let failures = 0; sent < file.size; ) {
    const answer = await current.next().catch((error) => {
      if (error instanceof Refused) {
        throw error;
      }
    });
    if (current.offset !== null && current.offset > sent) {
      sent = current.offset;
      failures = 0;
      progress(sent);
    } else if (!answer?.ok) {
      const reason = answer && (await refusal(answer));
      failures += 1;
      if (reason || failures > MOST_FAILURES) {
        throw reason ?? new Refused(LOST);
      }
      progress(null);
      await pause(failures, answer);
    }
  }
}

function item(file) {
  const row = document.createElement("li");
  const name = document.createElement("bdi");
  const bar = document.createElement("progress");
  const text = document.createElement("span");
  name.textContent = file.name;
  text.textContent = "waits";
  bar.max = file.size;
  bar.value = 0;
  bar.setAttribute("aria-label", `Upload of ${file.name}`);
  row.append(name, " ", text, bar);
  queue.append(row);
  const end = (words, isProblem) => {
    text.textContent = words;
    text.classList.toggle("problem", isProblem);
    bar.hidden = true;
  };
  const progress = (bytes) => {
    if (bytes === null) {
      text.textContent = "interrupted, trying again…";
    } else {
      bar.value = bytes;
      text.textContent = `${sizeOf(bytes)} of ${sizeOf(file.size)}`;
    }
  };
  return { file, end, progress };
}

async function uploadAll(files, format) {
  queue.replaceChildren();
  const items = files.map(item);
  let failed = 0;
  for (const { file, end, progress } of items) {
    status.textContent = `Uploading ${file.name}…`;
    try {
      if (file.size === 0) {
        throw new Refused("The file is empty.");
      }
      await upload(file, format, progress);
      end("uploaded", false);
    } catch (error) {
      if (error instanceof OldSignIn) {
        oldSignIn.hidden = false;
        queue.replaceChildren();
        status.textContent = "";
        return;
      }
      failed += 1;
      end(error instanceof Refused ? error.message : FAILED, true);
    }
    refresh();
  }
  status.textContent =
    failed === 0 ? "Uploaded. The import begins within seconds; its receipt appears below." : "Not everything was uploaded: see below.";
}

// The list of imports, as the server writes it. Entries that are open stay open, and a list in which the person is
// at work with the keyboard is left alone.
let timer = null;
let refreshMs = REFRESH_MS;

async function refreshLists() {
  const lists = document.getElementById("lists");
  const answer = await fetch(location.pathname + location.search, { redirect: "error" });
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("lists");
  if (!answer.ok || !fresh || lists.contains(document.activeElement)) {
    return lists;
  }
  for (const { id } of lists.querySelectorAll("details[open]")) {
    fresh.querySelector(`[id="${id}"]`)?.setAttribute("open", "");
  }
  lists.replaceWith(fresh);
  return fresh;
}

function refresh() {
  clearTimeout(timer);
  refreshMs = REFRESH_MS;
  timer = setTimeout(poll, 0);
}

async function poll() {
  const lists = await refreshLists().catch(() => document.getElementById("lists"));
  if (lists.dataset.busy === "true") {
    timer = setTimeout(poll, refreshMs);
    refreshMs = Math.min(refreshMs * 1.3, LONGEST_REFRESH_MS);
  } else if (!isRunning && status.textContent.startsWith("Uploaded")) {
    status.textContent = "The import has ended: its receipt is below.";
  }
}

if (form) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (isRunning) {
      return;
    }
    isRunning = true;
    oldSignIn.hidden = true;
    await uploadAll([...form.elements.files.files], chosenFormat());
    isRunning = false;
    refresh();
  });
  document.querySelector("[data-plain]").hidden = true;
  form.hidden = false;
}
if (document.getElementById("lists").dataset.busy === "true") {
  timer = setTimeout(poll, REFRESH_MS);
}
