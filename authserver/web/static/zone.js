// The time zone of the browser, for a new account. Without this script the account starts at UTC.

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const field = document.querySelector("#timezone");

if (field?.hasAttribute("data-browser-zone")) {
  const isKnown = [...field.list.options].some((option) => option.value === zone);
  if (isKnown && field.value === "UTC") {
    field.value = zone;
  }
}

// A form that leads to a provider has no field to type in. What was typed beside it counts there too.
for (const hidden of document.querySelectorAll("input[type=hidden][data-browser-zone]")) {
  hidden.form.addEventListener("submit", () => {
    hidden.value = field ? field.value : zone;
  });
}
