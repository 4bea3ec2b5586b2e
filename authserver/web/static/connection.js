// The state of a connection that waits for its first record: while the page is visible, this part of the page is
// renewed every three seconds, until the record has arrived. Without this script there is a link.

const PAUSE_MS = 3_000;
const MOST_LOOKS = 600;
const state = document.getElementById("state");

function pause() {
  return new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
}

function sayThatItLooks(part, words) {
  const again = part.querySelector("[data-again]");
  if (again) {
    again.textContent = words;
  }
}

// Returns the state as another request answers it; null without an answer, or where another page answers.
async function look() {
  const answer = await fetch(state.dataset.look, { cache: "no-store" }).catch(() => null);
  if (!answer?.ok || answer.redirected) {
    return null;
  }
  return new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("state");
}

async function watch() {
  const words = "This page looks every three seconds.";
  sayThatItLooks(state, words);
  for (let looks = 0; looks < MOST_LOOKS && state.dataset.awaited === "true"; looks += 1) {
    await pause();
    const fresh = document.hidden ? null : await look();
    if (fresh) {
      sayThatItLooks(fresh, words);
      state.dataset.awaited = fresh.dataset.awaited;
    }
    // Equal text is not set again, because a screen reader would say it again.
    if (fresh && fresh.textContent !== state.textContent) {
      state.replaceChildren(...fresh.childNodes);
    }
  }
  sayThatItLooks(state, "This page has looked for half an hour, and has stopped.");
}

if (state.dataset.awaited === "true") {
  watch();
}
