// The first steps of a new person. The button creates the key without leaving the page, because a browser lets a page
// write to the clipboard only while it handles a press. Then, while the page is visible, it asks every two seconds which
// steps are done, and continues to the dashboard after the first event.

const PAUSE_MS = 2_000;
const MOST_LOOKS = 900;
const find = (selector) => document.querySelector(selector);

// Shows the page that answers the form in place of this one, and returns the line to paste.
async function create(form) {
  const body = new URLSearchParams(new FormData(form));
  const answer = await fetch(form.action, { method: "POST", body });
  if (answer.redirected) {
    throw new Error("the answer is another page");
  }
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const line = page.getElementById("line")?.textContent;
  find("main").replaceWith(document.adoptNode(page.querySelector("main")));
  for (const { src } of page.querySelectorAll("script[src*='/copy.js']")) {
    document.head.append(Object.assign(document.createElement("script"), { src }));
  }
  listen();
  // A reader of the screen would otherwise be left at the place of a button that is gone.
  const outcome = find("main .done, main .alert");
  outcome.tabIndex = -1;
  outcome.focus();
  return line ?? Promise.reject(new Error("there is no line"));
}

async function copy(line) {
  const text = line.then((known) => new Blob([known], { type: "text/plain" }));
  await navigator.clipboard.write([new ClipboardItem({ "text/plain": text })]);
  find("[data-copied]").textContent = "Copied already: paste it now.";
}

function listen() {
  const form = find("[data-create]");
  let isSent = false;
  form?.addEventListener("submit", (event) => {
    event.preventDefault();
    if (isSent) {
      return;
    }
    isSent = true;
    const line = create(form);
    // Where a browser refuses, the page still has its copy button.
    copy(line).catch(() => {});
    // The same form again creates no second key; its answer is then a whole page.
    line.catch(() => form.isConnected && form.submit());
  });
}

function pause() {
  return new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
}

function visible() {
  return new Promise((resolve) => {
    const look = () => {
      if (!document.hidden) {
        document.removeEventListener("visibilitychange", look);
        resolve();
      }
    };
    document.addEventListener("visibilitychange", look);
    look();
  });
}

function say(text) {
  const status = find("[data-status]");
  if (status && status.textContent !== text) {
    status.textContent = text;
  }
}

function tick(steps) {
  for (const [name, isDone] of Object.entries(steps)) {
    const word = find(`[data-step="${name}"] [data-tick]`);
    const text = isDone ? "✓ done" : "not yet";
    if (word && word.textContent !== text) {
      word.textContent = text;
    }
  }
}

// Returns the steps; null without an answer, after which it asks again.
async function ask(address) {
  const answer = await fetch(address, { cache: "no-store" }).catch(() => null);
  if (answer?.status === 401) {
    const { problem } = await answer.json();
    throw new Error(problem);
  }
  return answer?.ok ? answer.json().catch(() => null) : null;
}

async function watch(address) {
  for (let looks = 0; looks < MOST_LOOKS; looks += 1) {
    say("This page looks for it every two seconds.");
    await pause();
    await visible();
    const steps = await ask(address);
    if (steps) {
      tick(steps);
    }
    if (steps?.event) {
      return;
    }
  }
  throw new Error("This page has looked for half an hour, and has stopped.");
}

function proceed(next) {
  find("[data-onward]").hidden = false;
  if (find("[data-tracker]")?.open) {
    // The key stands on this page alone, and the person may be about to copy the tracker's line.
    say("It is here.");
  } else {
    say("It is here. Your day follows.");
    location.assign(next);
  }
}

function stop(problem) {
  say(problem.message);
  find("[data-again]").hidden = false;
}

listen();
const list = find("[data-seen]");
if (list) {
  const { seen, next } = list.dataset;
  watch(seen).then(() => proceed(next), stop);
}
