// The download button. A link cannot send a token in a header, so a script fetches the file.

const downloadFailed = "The download did not work. Try again, or run the line below.";

function nameOf(answer) {
  const given = /filename="([^"]+)"/.exec(answer.headers.get("Content-Disposition") ?? "");
  return given ? given[1] : "activity.json";
}

async function save(address, token) {
  const answer = await fetch(address, { headers: { Authorization: `Bearer ${token}` } });
  if (!answer.ok) {
    const problem = await answer.json();
    return problem.message;
  }
  // For an incomplete transfer this throws, so no partial file is saved.
  const file = await answer.blob();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = nameOf(answer);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  return "Downloaded";
}

for (const button of document.querySelectorAll("[data-download]")) {
  const status = button.parentElement.querySelector("[role=status]");
  let isRunning = false;
  button.addEventListener("click", async () => {
    if (isRunning) {
      return;
    }
    isRunning = true;
    status.textContent = "Downloading…";
    const token = document.getElementById("token").textContent;
    status.textContent = await save(button.dataset.download, token).catch(() => downloadFailed);
    isRunning = false;
  });
  button.hidden = false;
}
