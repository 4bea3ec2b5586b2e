// The time zone of the browser, for a new account. Without this script the field stays at UTC.

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

for (const field of document.querySelectorAll("[data-browser-zone]")) {
  const isKnown = [...field.list.options].some((option) => option.value === zone);
  if (isKnown && field.value === "UTC") {
    field.value = zone;
  }
}
