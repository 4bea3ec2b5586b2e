// Copy buttons. They need this script, so the page hides them until it runs.

const failed = "That did not work. Select the text and copy it yourself.";

async function copy(button, status) {
  const text = document.getElementById(button.dataset.copy).textContent;
  status.textContent = "";
  try {
    await navigator.clipboard.writeText(text);
    status.textContent = "Copied";
  } catch {
    status.textContent = failed;
  }
}

if (navigator.clipboard) {
  for (const button of document.querySelectorAll("[data-copy]")) {
    const status = button.parentElement.querySelector("[role=status]");
    button.addEventListener("click", () => copy(button, status));
    button.hidden = false;
  }
}
