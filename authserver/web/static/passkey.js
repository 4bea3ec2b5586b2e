// Passkeys: asks the browser for what a form says in data-options, puts the answer into the form's hidden
// field and sends it. Forms that need this are hidden until it is known that the browser has passkeys.
"use strict";

const SAID = {
  NotAllowedError: "No passkey was used. Try again when you are ready.",
  InvalidStateError: "This device has a passkey for your account already.",
  SecurityError: "This address cannot have passkeys. Use another way.",
};

function bytes(text) {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(binary, (letter) => letter.charCodeAt(0));
}

function text(buffer) {
  const binary = Array.from(new Uint8Array(buffer), (byte) => String.fromCharCode(byte)).join("");
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function known(descriptors) {
  return (descriptors ?? []).map((each) => ({ ...each, id: bytes(each.id) }));
}

async function answer(form) {
  const asked = JSON.parse(form.dataset.options);
  const publicKey = { ...asked, challenge: bytes(asked.challenge) };
  const isNew = form.dataset.passkey === "create";
  if (isNew) {
    publicKey.user = { ...asked.user, id: bytes(asked.user.id) };
    publicKey.excludeCredentials = known(asked.excludeCredentials);
  } else {
    publicKey.allowCredentials = known(asked.allowCredentials);
  }
  const credential = await navigator.credentials[isNew ? "create" : "get"]({ publicKey });
  const given = credential.response;
  const response = { clientDataJSON: text(given.clientDataJSON) };
  if (isNew) {
    response.attestationObject = text(given.attestationObject);
    response.transports = given.getTransports?.() ?? [];
  } else {
    response.authenticatorData = text(given.authenticatorData);
    response.signature = text(given.signature);
    response.userHandle = given.userHandle ? text(given.userHandle) : null;
  }
  return JSON.stringify({
    id: credential.id,
    rawId: text(credential.rawId),
    type: credential.type,
    response,
  });
}

for (const form of window.PublicKeyCredential ? document.querySelectorAll("form[data-passkey]") : []) {
  const problem = form.querySelector("[data-problem]");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("button");
    problem.hidden = true;
    button.disabled = true;
    try {
      form.elements.credential.value = await answer(form);
      form.submit();
    } catch (error) {
      problem.textContent = SAID[error.name] ?? "That did not work in this browser. Use another way.";
      problem.hidden = false;
      button.disabled = false;
      button.focus();
    }
  });
  form.hidden = false;
  // A page that the browser kept comes back as it was left.
  addEventListener("pageshow", () => {
    form.querySelector("button").disabled = false;
  });
}
