// Forms whose result is shown only once: a second click would replace the first result, so it is ignored.

for (const form of document.querySelectorAll("[data-once]")) {
  let isSent = false;
  form.addEventListener("submit", (event) => {
    if (isSent) {
      event.preventDefault();
    }
    isSent = true;
  });
  // The browser's back button may show the same page again.
  addEventListener("pageshow", () => {
    isSent = false;
  });
}
