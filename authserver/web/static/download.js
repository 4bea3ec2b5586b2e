// The download button. A link cannot send a token in a header, so a script fetches the file. It writes the file to
// the browser's private file system as it arrives: an export may be larger than the memory of a tab.

const downloadFailed = "The download did not work. Try again, or run the line below.";
const KEPT_MS = 600_000;

function nameOf(answer, format) {
  const given = /filename="([^"]+)"/.exec(answer.headers.get("Content-Disposition") ?? "");
  return given ? given[1] : `activity.${format}`;
}

function sizeOf(bytes) {
  const units = ["bytes", "kB", "MB", "GB"];
  const power = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), 3);
  return `${(bytes / 1000 ** power).toFixed(power && 1)} ${units[power]}`;
}

// The expected size is an estimate: once more has come, no share of it is shown.
function progressOf(bytes, expected) {
  if (bytes > expected) {
    return `${sizeOf(bytes)} so far`;
  }
  return `${sizeOf(bytes)} of about ${sizeOf(expected)} (${Math.floor((100 * bytes) / expected)} %)`;
}

// Removes what an earlier visit of this page left on this disk.
async function emptyDirectory() {
  const root = await navigator.storage.getDirectory();
  for await (const name of root.keys()) {
    await root.removeEntry(name).catch(() => {});
  }
}

async function entryOf(answer, onBytes) {
  let bytes = 0;
  const counted = answer.body.pipeThrough(
    new TransformStream({
      transform(chunk, controller) {
        bytes += chunk.byteLength;
        onBytes(bytes);
        controller.enqueue(chunk);
      },
    }),
  );
  const root = await navigator.storage.getDirectory();
  const entry = await root.getFileHandle(crypto.randomUUID(), { create: true });
  // For an incomplete transfer this throws, so no partial file is saved.
  await counted.pipeTo(await entry.createWritable());
  return entry;
}

async function save(address, format, onBytes) {
  const token = document.getElementById("token").textContent;
  const answer = await fetch(`${address}?format=${format}`, {
    headers: { Authorization: `Bearer ${token}` },
  });
  if (!answer.ok) {
    const problem = await answer.json();
    return problem.message;
  }
  const entry = await entryOf(answer, onBytes);
  const file = await entry.getFile();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = nameOf(answer, format);
  link.click();
  setTimeout(() => {
    URL.revokeObjectURL(link.href);
    navigator.storage.getDirectory().then((root) => root.removeEntry(entry.name));
  }, KEPT_MS);
  return `Downloaded, ${sizeOf(file.size)}`;
}

// Browsers without that file system have the line for a terminal.
const canSave = "createWritable" in (globalThis.FileSystemFileHandle?.prototype ?? {});

if (canSave) {
  emptyDirectory();
}
for (const form of canSave ? document.querySelectorAll("[data-download]") : []) {
  const status = form.querySelector("[role=status]");
  const progress = form.querySelector("[data-progress]");
  let isRunning = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (isRunning) {
      return;
    }
    isRunning = true;
    status.textContent = "Downloading…";
    const format = form.elements.format.value;
    const expected = Number(form.elements.format.selectedOptions[0].dataset.size);
    const onBytes = (bytes) => {
      progress.textContent = progressOf(bytes, expected);
    };
    status.textContent = await save(form.dataset.download, format, onBytes).catch(() => downloadFailed);
    progress.textContent = "";
    isRunning = false;
  });
  form.hidden = false;
}
