// Forms whose answer is shown only once. A second click would put its own answer in the place of the first.

for (const form of document.querySelectorAll("[data-once]")) {
  let isSent = false;
  form.addEventListener("submit", (event) => {
    if (isSent) {
      event.preventDefault();
    }
    isSent = true;
  });
  // Somebody may come back to the form by the back button.
  addEventListener("pageshow", () => {
    isSent = false;
  });
}
